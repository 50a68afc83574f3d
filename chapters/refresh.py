"""Run the notebooks again and write them back, changed only where a result changed.

A committed notebook holds its execution counts, its text outputs and a PNG of each
figure. It holds no widget state, no times and nothing of the machine that ran it, and a
picture whose pixels did not change stays as it was.
"""

import argparse
import base64
import io
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from PIL import Image

METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}
KEPT = ("text/plain", "text/markdown", "image/png")


def refreshed(path):
    """Execute one notebook and return it as it should be committed."""
    notebook = nbformat.read(path, as_version=4)
    old = [cell.get("outputs", []) for cell in notebook.cells]
    NotebookClient(
        notebook, timeout=120, resources={"metadata": {"path": str(path.parent)}}
    ).execute()
    normalise(notebook, old)
    return nbformat.writes(notebook, indent=1) + "\n"


def normalise(notebook, old):
    """Strip an executed notebook of what differs from run to run.

    `old` are the outputs that each cell had before.
    """
    notebook.metadata = nbformat.from_dict(METADATA)
    for number, (cell, had) in enumerate(
        zip(notebook.cells, old, strict=True), start=1
    ):
        cell.id = f"cell-{number:03}"
        cell.metadata.pop("execution", None)
        if cell.cell_type == "code":
            cell.outputs = merge_streams(cell.outputs)
        for at, output in enumerate(cell.get("outputs", [])):
            if output.get("name") == "stderr":
                raise ValueError(f"cell {number} wrote to stderr: {output['text']}")
            if "data" in output:
                output["data"] = {
                    kind: data for kind, data in output["data"].items() if kind in KEPT
                }
                output["metadata"] = {}
                keep_picture(
                    output["data"], had[at].get("data", {}) if at < len(had) else {}
                )


def merge_streams(outputs):
    """Join pieces of printed text: where they are cut depends on timing."""
    merged = []
    for output in outputs:
        if (
            merged
            and output.get("name")
            and output.get("name") == merged[-1].get("name")
        ):
            merged[-1]["text"] += output["text"]
        else:
            merged.append(output)
    return merged


def keep_picture(data, old):
    """Put the old PNG back where the new one has the same pixels.

    Another version of zlib packs the same pixels differently.
    """
    if "image/png" not in data:
        return
    data["image/png"] = data["image/png"].replace("\n", "").strip()
    if "image/png" in old and pixels(data["image/png"]) == pixels(old["image/png"]):
        data["image/png"] = old["image/png"]


def pixels(png):
    """Return a base64-coded PNG as its size and raw pixels."""
    image = Image.open(io.BytesIO(base64.b64decode(png))).convert("RGB")
    return image.size, image.tobytes()


def main():
    """Refresh the notebooks named, two at a time."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "notebooks", nargs="*", type=Path, help="default: every chapter"
    )
    parser.add_argument(
        "--check",
        action="store_true",
        help="write nothing; exit with 1 if one would change",
    )
    given = parser.parse_args()
    paths = given.notebooks or sorted(Path(__file__).parent.glob("*.ipynb"))
    with ThreadPoolExecutor(2) as pool:
        fresh = list(pool.map(refreshed, paths))
    stale = [
        path
        for path, text in zip(paths, fresh, strict=True)
        if text != path.read_text(encoding="utf-8")
    ]
    for path, text in zip(paths, fresh, strict=True):
        print(f"{path.name}: {'changed' if path in stale else 'unchanged'}")
        if not given.check:
            path.write_text(text, encoding="utf-8", newline="\n")
    return bool(stale and given.check)


if __name__ == "__main__":
    sys.exit(main())
