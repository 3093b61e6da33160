"""What a pasted command was understood as, under any page."""

from kvcalc.render.page import Page, Text
from kvcalc.results.base import Report, engine_name


def with_command(page: Page, report: Report) -> Page:
    """The page with what was read from the command; unchanged where none was pasted."""
    serve = report.inputs.get("serve")
    if not isinstance(serve, dict) or "engine" not in serve:
        return page
    lines = [f"{engine_name(serve['engine'])}, {serve['model'] or 'no model named'}"]
    if serve["ignored"]:
        lines.append(f"changes nothing here: {', '.join(serve['ignored'])}")
    if serve["not_modelled"]:
        lines.append(f"not modelled: {', '.join(serve['not_modelled'])}")
    if serve["unknown"]:
        lines.append(f"not known, left out: {', '.join(serve['unknown'])}")
    return page._replace(blocks=(*page.blocks, Text(title="From the command", lines=tuple(lines))))
