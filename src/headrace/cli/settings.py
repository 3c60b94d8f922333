"""`KEY=VALUE` options, as `--set` gives them. Imports nothing heavy: `broker` uses it."""

from headrace.base.errors import UsageError


def parse_settings(pairs: list[str] | None) -> dict[str, str]:
    settings: dict[str, str] = {}
    for pair in pairs or []:
        key, separator, value = pair.partition("=")
        if not separator or not key.strip():
            raise UsageError(f"{pair!r} is not KEY=VALUE, such as retention.ms=60000")
        settings[key.strip()] = value
    return settings
