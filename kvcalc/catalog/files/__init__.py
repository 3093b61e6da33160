"""Reading and writing files of others: bounded, with errors that say where."""
