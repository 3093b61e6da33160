"""`kvcalc calibrate --from`: what somebody measured, as factors on kvcalc's terms."""
