"""`weft doctor`: is everything as it should be?"""

from __future__ import annotations

from dataclasses import asdict

import click

from weft.cli.shown import printable, show_json


@click.command(short_help="Check the installation and say what is off.")
@click.option("--json", "is_json", is_flag=True, help="Print the findings as JSON.")
@click.option("--socket", "wants_socket", is_flag=True, help="Only print where the daemon's REST socket is.")
def doctor(is_json: bool, wants_socket: bool) -> int:
    """Check the installation, this machine and the daemon, and say what is off. Exit code 1 if something is."""
    if wants_socket:
        from weft.home import Home

        click.echo(Home.find().socket)
        return 0
    from weft.cli.findings import findings

    found = findings()
    if is_json:
        show_json([asdict(each) for each in found])
    else:
        for each in found:
            click.echo(f"{'ok ' if each.is_ok else 'off'}  {each.what}: {printable(each.says)}")
            if each.hint and not each.is_ok:
                click.echo(f"     hint: {printable(each.hint)}")
    return int(not all(each.is_ok for each in found))
