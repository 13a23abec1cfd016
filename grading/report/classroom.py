"""A grade in the form that GitHub Classroom's reporter reads: base64 of JSON, for the workflow that
`make classroom` writes.

    python3 -m grading.report.classroom LAB build/riscv64.json build/arm64.json

Each file is the grade.json of one architecture. If it is missing, that architecture has no points:
its kernel was not built, or the student's files are as handed out. An error of the harness is no
score: then the program ends with 1, and prints only a message on the standard error.
"""

import base64
import json
import sys
from pathlib import Path
from typing import Any

from grading.checks import rubric


def grades_in(path: Path, lab: int) -> list[dict[str, Any]]:
    if path.exists():
        return list(json.loads(path.read_text())["grades"])
    rungs = [{"name": rung.name, "points": 0, "possible": rung.points, "boots": {
        "": "not graded: what this step printed says why"}} for rung in rubric.lab(lab).rungs]
    return [{"arch": path.stem, "points": 0,
             "possible": sum(rung.points for rung in rubric.lab(lab).rungs), "rungs": rungs}]


def result(grades: list[dict[str, Any]]) -> dict[str, Any] | None:
    if any(grade["points"] is None for grade in grades):
        return None
    tests = [{"name": f"{grade['arch']}: {rung['name']}", "status": "pass"
              if rung["points"] == rung["possible"] else "fail", "score": rung["points"],
              "message": next((why for why in rung["boots"].values() if why), "")}
             for grade in grades for rung in grade["rungs"]]
    return {"version": 1, "status": "pass" if all(test["status"] == "pass" for test in tests)
            else "fail", "max_score": sum(grade["possible"] for grade in grades), "tests": tests}


def main() -> int:
    lab, *paths = sys.argv[1:]
    found = result([grade for path in paths for grade in grades_in(Path(path), int(lab))])
    if found is None:
        print("the harness failed: there is no score", file=sys.stderr)
        return 1
    print(base64.b64encode(json.dumps(found).encode()).decode())
    return 0


if __name__ == "__main__":
    sys.exit(main())
