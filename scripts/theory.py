#!/usr/bin/env python3
"""Makes the tables and the picture of docs/theory.md.

    scripts/theory.py [--check] [--only WORD] [--program target/release/apfl] [--page docs/theory.md]

Runs the commands of every block of the page that begins with `$ apfl`, in a new directory and in
the order of the page, and puts the output of a block's last command in the place of the old one.
The picture of runs/synthetic becomes theory.svg beside the page. `--check` changes nothing, prints
the lines that differ and ends with 1 if there are any. `--only WORD` leaves blocks without the
word in their command as they are. It takes about a minute.
"""
import argparse
import difflib
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
BLOCK = re.compile(r"^```text\n\$ (apfl [^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PICTURE = "runs/synthetic/theory.svg"
SPEC = 'data = { kind = "synthetic" }\n'


def output(commands, program, directory):
    """Runs commands joined by && and returns what the last one prints."""
    for command in commands.split("&&"):
        words = shlex.split(command)
        if words[0] != "apfl":
            sys.exit(f"{command}: a command of the page must be apfl")
        done = subprocess.run(
            [program, *words[1:]], cwd=directory, capture_output=True, text=True
        )
        if done.returncode:
            sys.exit(f"{command}: ended with {done.returncode}\n{done.stderr}")
    return "".join(line.rstrip() + "\n" for line in done.stdout.splitlines())


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--only", default="")
    parser.add_argument("--program", default=ROOT / "target/release/apfl")
    parser.add_argument("--page", default=ROOT / "docs/theory.md", type=pathlib.Path)
    args = parser.parse_args()
    program = pathlib.Path(args.program).resolve()
    old = args.page.read_text()
    with tempfile.TemporaryDirectory() as directory:
        (pathlib.Path(directory) / "synthetic.toml").write_text(SPEC)

        def replace(block):
            commands = block.group(1)
            if args.only not in commands:
                return block.group(0)
            return f"```text\n$ {commands}\n{output(commands, program, directory)}```"

        new = BLOCK.sub(replace, old)
        drawn = pathlib.Path(directory) / PICTURE
        picture = drawn.read_text() if drawn.exists() else None
    file = args.page.parent / "theory.svg"
    differs = picture is not None and picture != file.read_text()
    if args.check:
        sys.stdout.writelines(
            difflib.unified_diff(
                old.splitlines(True), new.splitlines(True), "page", "commands", n=0
            )
        )
        if differs:
            print(f"{file.name} differs")
        sys.exit(int(differs or old != new))
    args.page.write_text(new)
    if picture is not None:
        file.write_text(picture)


if __name__ == "__main__":
    main()
