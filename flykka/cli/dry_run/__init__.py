"""An app up to its first `execute`: what `flykka plan` draws and `flykka savepoint check` looks at."""
