"""Python packages for functions, installed by pip into a folder of their own.

They are installed in the driver, once, and sent to the executors with the other files, while PyFlink installs them on
every worker. So executors need neither pip nor a network, a requirement that cannot be installed is told on the user's
line before there is a job, and functions of the user's that Spark calls by itself (`F.udf`) find them too. Spark's
workers have the Python version of the driver in any case; they must have its platform too where a package is compiled.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from flykka.spark_bridge.errors import UserFileError

_REQUIREMENT = re.compile(
    r"(?:No matching distribution found for|that satisfies the requirement|Invalid requirement:|"
    r"Failed building wheel for|Failed to build) ([^\n(]+)"
)


def install(requirements: Path, packages: Path | None, folder: Path, call: str) -> None:
    """Install what a requirements file names into a folder; from `packages` alone where that is given. Blocks.

    Raises:
        UserFileError: pip cannot; the text names the requirement, as far as pip says it.
    """
    command = [sys.executable, "-m", "pip", "install", "--target", str(folder), "--requirement", str(requirements)]
    command += ["--ignore-installed", "--disable-pip-version-check", "--no-input", "--quiet"]
    if packages is not None:
        command += ["--no-index", "--find-links", str(packages)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise UserFileError(f"{call}: {requirements} cannot be installed{_reason(done.stdout + done.stderr)}")
    folder.mkdir(exist_ok=True)


def _reason(said: str) -> str:
    errors = [line.removeprefix("ERROR:").strip() for line in said.splitlines() if line.startswith("ERROR:")]
    named = _REQUIREMENT.findall(said)
    requirement = f", for the requirement {named[-1].strip()}" if named else ""
    return f"{requirement}: {'; '.join(errors) or said.strip()}"
