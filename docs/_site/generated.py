"""The reference pages that are made from the code, as Markdown: the command line, settings, REST, the SDK, policies,
trace formats. `mkdocs.yml` has them in its navigation; hooks.py makes them at each build, so they are always current.

    python docs/_site/generated.py reference/cli.md    # print one
"""

from __future__ import annotations

import dataclasses
import inspect
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

NOTE = "*This page is made from the code at each build.*\n"


def command_line() -> str:
    import click

    from weft.cli.main import weft

    root = click.Context(weft, info_name="weft", **weft.context_settings)
    parts = ["# Command line", NOTE, _help(weft, root)]
    for name in weft.list_commands(root):
        command = weft.get_command(root, name)
        assert command is not None
        context = click.Context(command, info_name=name, parent=root)
        parts.append(f"## weft {name}\n\n{_help(command, context)}")
        if isinstance(command, click.Group):
            for inner in command.list_commands(context):
                verb = command.get_command(context, inner)
                assert verb is not None
                shown = _help(verb, click.Context(verb, info_name=inner, parent=context))
                parts.append(f"### weft {name} {inner}\n\n{shown}")
    return "\n\n".join(parts) + "\n"


def _help(command: Any, context: Any) -> str:
    context.terminal_width = context.max_content_width = 100
    return f"```text\n{command.get_help(context).rstrip()}\n```"


def settings() -> str:
    from weft.system.settings import KEYS, VARIABLES, Settings

    documented = _attribute_docs(Settings)
    by_key = {key: name for name, key in VARIABLES.items()}
    rows = ["| key | value | default | meaning |", "|---|---|---|---|"]
    for field in dataclasses.fields(Settings):
        key = "tenants" if field.name == "quotas" else field.name
        default = "" if field.name == "quotas" else f"`{_toml(field.default)}`"
        variable = f" Environment: `{by_key[key]}`." if key in by_key else ""
        rows.append(f"| `{key}` | {_cell(KEYS[key][1])} | {default} | {_cell(documented[field.name])}{variable} |")
    table = "\n".join(rows)
    return f"""# Settings

{NOTE}
weft reads `weft.toml` in its home: `WEFT_HOME`, or `~/.weft`. A flag of `weft up` overrides the environment, and the
environment overrides the file. Changes apply at the next `weft down` and `weft up`; until then `weft up` and
`weft doctor` report that they are pending. `weft up --policy NAME` changes the policy of a running weft and restarts no
job.

{table}

The home also holds the log (`weft.db`), the output of jobs, and backups. Two wefts with different homes run side by
side.
"""


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f'"{value}"' if isinstance(value, str) else f"{value:g}"


def _attribute_docs(kind: type) -> dict[str, str]:
    """The docstring below each field of a dataclass."""
    source = inspect.getsource(kind)
    found = re.findall(r'^    (\w+): [^\n]*\n(?:    """(.*?)""")?', source, flags=re.MULTILINE | re.DOTALL)
    return {name: " ".join(text.split()) or _MEANINGS.get(name, "") for name, text in found}


_MEANINGS = {"policy": "The scheduling policy."}


def policies() -> str:
    from weft.policies.loader import as_typed, declared
    from weft.policies.registry import PARAMETERS, POLICIES

    parts = [
        "# Policies",
        NOTE,
        "Parameters are set in the policy's name, as in `weft up --policy gandiva:quantum_s=30` or\n"
        "`weft simulate sample --policy tiresias-l:thresholds=300/1200:promote_knob=8`; lists use slashes.",
    ]
    for name, make in POLICIES.items():
        policy = make()
        facts = [inspect.getdoc(make) or ""]
        if policy.needs_declared_work:
            facts.append("It needs declared work (`--steps`, or a trace's durations).")
        if policy.heeds_classes:
            facts.append("It applies quotas and classes.")
        parts.append(f"## {name}\n\n{' '.join(facts)}")
        rows = []
        for key, each in declared(make).items():
            rows.append(f"| `{key}` | `{_short(as_typed(each.default))}` | {_cell(PARAMETERS[key])} |")
        if rows:
            parts.append("\n".join(["| parameter | default | meaning |", "|---|---|---|", *rows]))
    return "\n\n".join(parts) + "\n"


def _short(text: str) -> str:
    values = text.split("/")
    return text if len(values) < 8 else f"{'/'.join(values[:4])}/…/{values[-1]}"


def trace_formats() -> str:
    from weft.sim.trace.formats import FORMS

    rows = ["| `--format` | what its files have |", "|---|---|"]
    for name, layouts in FORMS.items():
        rows.append(f"| `{name}` | {_cell('; or '.join(dict.fromkeys(each.needs for each in layouts)))} |")
    table = "\n".join(rows)
    return f"""# Trace formats

{NOTE}
`weft simulate` and `weft trace inspect` recognise the format of a file by its header; `--format` names it instead. The
`plain` format is weft's own, described in [Simulate](../guides/simulate.md).

{table}
"""


def rest() -> str:
    described = _openapi()
    parts = [
        "# REST",
        NOTE,
        "The daemon serves REST over a Unix socket that only its user can open. `weft doctor --socket` prints the\n"
        "path; `/v1/openapi.json` is the OpenAPI description, `/v1/docs` a page made from it, and `/metrics` is for "
        "Prometheus.",
    ]
    for path, verbs in described["paths"].items():
        for verb, operation in verbs.items():
            parts.append(f"## {verb.upper()} {path}\n\n" + "\n\n".join(_operation(operation)))
    parts.append("## Types")
    for name, schema in sorted(described["components"]["schemas"].items()):
        parts.append(f"### {name}\n\n" + "\n\n".join(_schema(schema)))
    return "\n\n".join(parts) + "\n"


def _openapi() -> Mapping[str, Any]:
    """The routes need no daemon until they are called."""
    from weft.control.api.app import make_app

    return make_app(None).openapi()  # type: ignore[arg-type]


def _operation(operation: Mapping[str, Any]) -> Iterator[str]:
    rows = [
        f"| `{each['name']}` | {each['in']} | {_cell(_kind(each['schema']))} | {_cell(each.get('description', ''))} |"
        for each in operation.get("parameters", ())
    ]
    if rows:
        yield "\n".join(["| parameter | in | type | meaning |", "|---|---|---|---|", *rows])
    for media in operation.get("requestBody", {}).get("content", {}).values():
        yield f"Body: {_kind(media['schema'])}"
    for code, response in operation["responses"].items():
        for media in response.get("content", {}).values():
            if code.startswith("2") and media.get("schema"):
                yield f"Answer {code}: {_kind(media['schema'])}"


def _schema(schema: Mapping[str, Any]) -> Iterator[str]:
    if text := schema.get("description"):
        yield " ".join(text.split())
    if "enum" in schema:
        yield ", ".join(f"`{value}`" for value in schema["enum"])
    required = schema.get("required", ())
    rows = []
    for name, field in schema.get("properties", {}).items():
        is_required = "yes" if name in required else ""
        rows.append(f"| `{name}` | {_cell(_kind(field))} | {is_required} | {_cell(field.get('description', ''))} |")
    if rows:
        yield "\n".join(["| field | type | required | meaning |", "|---|---|---|---|", *rows])


def _kind(schema: Mapping[str, Any]) -> str:
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "anyOf" in schema:
        return " or ".join(_kind(each) for each in schema["anyOf"])
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"])
    if schema.get("type") == "array":
        return f"list of {_kind(schema.get('items', {}))}"
    return str(schema.get("type", "any"))


def sdk() -> str:
    import weft

    parts = [
        "# Python",
        NOTE,
        "Everything below is in the package `weft`. [Pause and checkpoint](../guides/pause.md), "
        "[Simulate](../guides/simulate.md)\nand [Share a machine](../guides/share.md) have examples.",
    ]
    kinds = {name: getattr(weft, name) for name in sorted(set(weft.__all__) - {"__version__"})}
    for name, found in kinds.items():
        parts.append(f"## weft.{name}")
        if inspect.isclass(found) and issubclass(found, BaseException):
            parts.append(_doc(found))
        elif inspect.isclass(found):
            parts.append(_doc(found))
            parts += _methods(found)
        elif callable(found):
            parts.append(f"```text\n{name}{_signature(found)}\n```\n\n{_doc(found)}")
    return "\n\n".join(parts) + "\n"


def _methods(kind: type) -> Iterator[str]:
    ours = [each for each in kind.__mro__ if each.__module__.startswith("weft")]
    for name, found in {name: found for each in reversed(ours) for name, found in vars(each).items()}.items():
        if name.startswith("_") or not (inspect.isfunction(found) or isinstance(found, property)):
            continue
        if isinstance(found, property):
            yield f"**`{name}`** {_doc(found.fget)}"
        else:
            yield f"**`{name}{_signature(found)}`**\n\n{_doc(found)}"


def _signature(found: Callable[..., Any]) -> str:
    text = str(inspect.signature(found)).replace("'", "").replace("(self, ", "(").replace("(self)", "()")
    return " ".join(text.split())


def _doc(found: Any) -> str:
    text = inspect.getdoc(found) or ""
    return "" if text.startswith(f"{getattr(found, '__name__', '')}(") else text


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


PAGES: Mapping[str, Callable[[], str]] = {
    "reference/cli.md": command_line,
    "reference/settings.md": settings,
    "reference/rest.md": rest,
    "reference/sdk.md": sdk,
    "reference/policies.md": policies,
    "reference/traces.md": trace_formats,
}


if __name__ == "__main__":
    sys.stdout.write(PAGES[Path(sys.argv[1]).as_posix()]())
