"""`weft nodes`: the devices, and who has them."""

from __future__ import annotations

import click

from weft.cli.shown import show_json, show_table, size

HEADS = ("NODE", "NODE STATE", "DEVICE", "TYPE", "MEMORY", "USED", "CORES", "STATE", "JOBS")


@click.command(short_help="List nodes and their devices.")
@click.option("--json", "is_json", is_flag=True, help="Print a list of nodes as JSON.")
def nodes(is_json: bool) -> None:
    """List nodes and their devices, and which jobs are on them.

    A device is free, busy, or unmanaged: somebody else's process is on it, so weft leaves it alone. USED is what
    PyTorch holds of its memory in the jobs that run there, as far as it is measured.
    """
    from weft.client import Client

    found = Client().nodes()
    if is_json:
        show_json(found)
        return
    rows = [
        (
            node["name"],
            node["state"],
            f"{device['kind']}:{device['index']}",
            device["type"],
            size(device["memory_bytes"]),
            size(device.get("used_bytes")),
            ",".join(map(str, device["cores"] or [])),
            device["state"],
            ",".join(device["jobs"]) or device["blocked_by"] or "",
        )
        for node in found
        for device in node["devices"]
    ]
    show_table(HEADS, rows)
    for node in found:
        if node.get("cpus_declared"):
            declared = f"{node['cpus_declared']} of {node['cpus']} CPU cores are declared by jobs (--cpus)"
            click.echo(f"{node['name']}: {declared}")
