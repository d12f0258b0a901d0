"""Print the route keys, their candidates and the catalog digest."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.table import Table

from generator.core.catalog import build_catalog
from kernels import find_families

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

    from generator.output import Output


def configure(parser: ArgumentParser) -> None:
    """Add the verb's arguments."""
    parser.add_argument("--digest", action="store_true", help="print the 16 digits of the digest alone")
    parser.add_argument("--json", action="store_true", help="print everything as JSON")


def run(arguments: Namespace, output: Output) -> int:
    """Print the catalog."""
    catalog = build_catalog(find_families())
    if arguments.digest:
        output.text(f"{catalog.digest()}\n")
    elif arguments.json:
        output.json(
            {
                "digest": catalog.digest(),
                "keys": {
                    key: {
                        "calibrated": route.calibrated,
                        "candidates": [item.schedule for item in route.candidates],
                        "digest": catalog.key_digest(key),
                        "family": catalog.families[key].name,
                        "kernels": "pending" if catalog.families[key].source is None else "present",
                        "order": route.order,
                        "widths": list(route.widths),
                    }
                    for key, route in catalog.routes.items()
                },
            }
        )
    else:
        table = Table(
            "order", "route key", "widths", "candidates", "kernels", title=f"route catalog {catalog.digest()}"
        )
        for route in (*catalog.calibrated, *(item for item in catalog.routes.values() if not item.calibrated)):
            table.add_row(
                str(route.order) if route.calibrated else "not calibrated",
                route.key,
                f"{len(route.widths)}: {route.widths[0]} to {route.widths[-1]}",
                " ".join(item.schedule for item in route.candidates),
                "pending" if catalog.families[route.key].source is None else "present",
            )
        output.show(table)
    return 0
