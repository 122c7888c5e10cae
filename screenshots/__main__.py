"""`python -m screenshots` captures every screen of the running program and draws the pictures that documents show.

`--check` only compares: it prints the lines that differ and exits with 1 if there are any.
Both sizes are captured in parallel, each by a process with its own platform.
"""

import argparse
import sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

from screenshots.capture import compare
from screenshots.pictures import BROWSER_PICTURE, FOLDER, PictureFolder
from screenshots.scene_captures import capture_scenes

SIZES = ((120, 36), (80, 24))


def update(folder: PictureFolder, documents: dict[str, str], *, check: bool, whole: bool) -> bool:
    """Print the differences from the captures of a folder and, unless `check` is true, update the folder.

    Args:
        folder: Folder with the captures and pictures.
        documents: Text forms by file name.
        check: Compare only.
        whole: Whether these are all scenes, so that any other capture is obsolete.

    Returns:
        Whether there are no differences.
    """
    folder.captures.mkdir(exist_ok=True)
    former = {path.stem: path.read_text() for path in folder.captures.glob("*.txt")}
    gone = sorted(former.keys() - documents.keys()) if whole else []
    changed = [name for name, document in documents.items() if former.get(name) != document]
    for name in changed:
        sys.stdout.writelines(f"{line}\n" for line in compare(former.get(name, ""), documents[name], name))
        if not check:
            (folder.captures / f"{name}.txt").write_text(documents[name])
    for name in gone:
        sys.stdout.write(f"captures/{name}.txt belongs to no scene\n")
        if not check:
            (folder.captures / f"{name}.txt").unlink()
    stale = [name for name, _ in folder.stale()]
    sys.stdout.writelines(f"{name} was not drawn from the present capture\n" for name in stale)
    if BROWSER_PICTURE in stale:
        sys.stdout.write(f"draw {BROWSER_PICTURE} with: python -m screenshots.browser\n")
    if not check:
        folder.draw()
    sys.stdout.write(f"{len(documents) - len(changed)} screens equal their captures, {len(changed)} differ\n")
    return not (changed or gone or stale)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m screenshots")
    parser.add_argument("--check", action="store_true", help="compare only, write nothing")
    parser.add_argument("scenes", nargs="*", help="capture these scenes only")
    options = parser.parse_args()
    with ProcessPoolExecutor(len(SIZES), get_context("spawn")) as processes:
        results = processes.map(capture_scenes, SIZES, [options.scenes] * len(SIZES))
        documents = {name: document for result in results for name, document in result.items()}
    same = update(FOLDER, documents, check=options.check, whole=not options.scenes)
    if options.check and not same:
        sys.stdout.write("capture the screens again with: python -m screenshots\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
