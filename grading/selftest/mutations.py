"""Makes small semantic changes to C and assembly, one or two lines each.

Changes are made to the lines that a student writes: the solution's lines between `#if LAB_START ..`
and `#endif`. Statements that order stores, wait for other CPUs or exclude them are also removed in
the rest of the file, and two stores with such a statement between them are also exchanged there.
"""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

LEFT_OUT = "(left out)"


@dataclass(frozen=True)
class Mutant:
    file: str
    line: int
    function: str
    kind: str
    old: str
    new: str
    text: str = field(repr=False)  # of the whole file
    nth: int = 1  # among mutants with the same description

    @property
    def id(self) -> str:
        """A name that does not change when other lines of the file change."""
        return f"{self.file} {self.function}: {self.old} => {self.new}" + (f" #{self.nth}"
                                                                           if self.nth > 1 else "")


@dataclass(frozen=True)
class Edit:
    kind: str
    first: int  # line number, from 0
    lines: list[str]  # they replace as many lines
    anywhere: bool = False  # also allowed outside of the solution's lines


# ---- what is code ------------------------------------------------------------

def blanked(text: str) -> str:
    """The text with each character of a comment or a string replaced by a space."""
    return re.sub(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"', lambda m: re.sub(r"[^\n]", " ", m[0]),
                  text, flags=re.S)


def solution(lines: list[str], lab: int) -> list[bool]:
    """For each line: is it a line of the solution only?"""
    inside, marks = list[bool | None](), list[bool]()  # None: a condition that is not about labs
    for line in lines:
        word = "".join(re.findall(r"^#\s*(if|else|endif)", line))
        if word == "if":
            inside.append("!=" in line if re.match(rf"#if LAB_START [!=]= {lab}\b", line) else None)
        elif word == "else":
            inside[-1] = None if inside[-1] is None else not inside[-1]
        elif word == "endif":
            inside.pop()
        marks.append(not word and True in inside and False not in inside)
    return marks


def functions(lines: list[str]) -> list[str]:
    """For each line: the name of its function, which is the last one that began."""
    name, names = "", []
    for line in lines:
        begins = re.match(r"\s*\.type (\w+),|(?=[A-Za-z_])[^=;]*?(\w+)\([^;]*$", line)
        name = begins[1] or begins[2] if begins else name
        names.append(name)
    return names


# ---- C -------------------------------------------------------------------------

EXCHANGED = {
    "<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==", "+": "-", "-": "+",
    "&&": "||", "||": "&&", "&": "|", "|": "&", "^": "|", "<<": ">>", ">>": "<<", "+=": "-=",
    "-=": "+=", "|=": "&=", "&=": "|=", "^=": "|=", "++": "--", "--": "++"
}
OPERATOR = re.compile(r"(?<= )(?:[<>=!]=|&&|\|\||<<|>>|[-+|&^]=?|[<>])(?= |$)|\+\+|--")
CONDITION = re.compile(r"\b(?:if|while) \(")
NUMBER = re.compile(r"(?<![\w.])(0x[0-9a-fA-F]+|\d+)(?=[uUlL]*\b)")
BARRIER = re.compile(r"\s*(?:smp_\w*mb|barrier)\(\);")
WAITS = re.compile(
    r"\s*(?:synchronize_\w+|arch_sync\w*|preempt_\w+|mutex_\w+|text_alias_(?:open|close)|"
    r"shadow_users_\w+)\(.*\);"
)
STORE = re.compile(r"\s*(?:(?:WRITE_ONCE|shadow_store)\(.*\)|[^=]* = .*);$")
NO_STATEMENT = re.compile(
    r"\s*(?:if|for|while|else|switch|case|do|[{}#;]|"
    r"(?:const|struct|unsigned|long|int|u8|u16|u32|u64|bool|char|u?int\d+_t|static|extern)\b)"
)


def in_c(lines: list[str], code: list[str]) -> Iterator[Edit]:
    for at, line in enumerate(lines):
        for kind, begin, end, new in words_of_c(code[at]):
            yield Edit(kind, at, [line[:begin] + new + line[end:]])
    yield from statements(code)


def words_of_c(code: str) -> Iterator[tuple[str, int, int, str]]:
    """For each possible change of a line: its kind, the start and end column, the new text."""
    for m in OPERATOR.finditer(code):
        yield "operator", m.start(), m.end(), EXCHANGED[m[0]]
    for m in CONDITION.finditer(code):
        if end := closing(code, m.end()):
            yield "condition", m.end(), end, f"!({code[m.end():end]})"
    for m in re.finditer(r"!(?=[\w(])", code):
        yield "condition", m.start(), m.end(), ""
    for m in re.finditer(r"\b(?:true|false)\b", code):
        yield "constant", m.start(), m.end(), "false" if m[0] == "true" else "true"
    for m in NUMBER.finditer(code):
        for value in sorted({int(m[1], 0) + 1, abs(int(m[1], 0) - 1)}):
            yield "constant", m.start(), m.end(), hex(value) if "x" in m[1] else str(value)


def closing(code: str, at: int) -> int:
    """The column at which the parenthesis before `at` is closed; 0: on another line."""
    depth = 1
    for n, letter in enumerate(code[at:], at):
        depth += (letter == "(") - (letter == ")")
        if not depth:
            return n
    return 0


def statements(code: list[str]) -> Iterator[Edit]:
    before = ""  # the line of code before this one
    for at, line in enumerate(code):
        if not line.strip():
            continue
        starts = (not before or before.startswith("#") or before[-1] in ";{}):"
                  or before.endswith("else"))
        before = line.rstrip()
        if (not starts or NO_STATEMENT.match(line) or not line.startswith("\t")
                or line.startswith("\treturn ")):
            continue
        end = next((n for n in range(at, len(code)) if code[n].rstrip().endswith(";")), at)
        orders = bool(BARRIER.match(line) or WAITS.match(line))
        yield Edit("order" if orders else "statement", at, [indent(line) + ";", *[""] * (end - at)],
                   orders)
        yield from exchanged(code, at)


def indent(line: str) -> str:
    return line[:len(line) - len(line.lstrip())]


def exchanged(code: list[str], at: int) -> Iterator[Edit]:
    """Exchange the statement on this line with the next one at the same depth. A barrier between
    them stays between them."""
    end = next((n for n in range(at + 1, len(code)) if not BARRIER.match(code[n])), at)
    pair = [code[at].rstrip(), code[end].rstrip()]
    if all((STORE.match(line) or WAITS.match(line)) and not NO_STATEMENT.match(line)
           and indent(line) == indent(code[at]) for line in pair):
        orders = end > at + 1 or any(WAITS.match(line) for line in pair)
        yield Edit("order" if orders else "exchanged stores", at,
                   [code[end], *code[at + 1:end], code[at]], orders)


# ---- assembly -------------------------------------------------------------------

INSTRUCTION = re.compile(r"(?:\w+:)?\s+([a-z][\w.]*)(?:\s+(\S.*?))?\s*$")
REGISTER = re.compile(r"\b(?:a[0-7]|t[0-6]|s0|ra|x\d+|sp)\b(?!\()")
OTHER = {
    "ra": "t0", "s0": "sp", "sp": "s0", "a7": "a6", "t6": "t5", "x17": "x16", "x29": "x30",
    "x30": "x29"
}
OFFSET = re.compile(
    r"(?<=#)[^:,\]\s][^,\]]*|(?<=, )[^,%()]*(?=\(\w+\)$)|(?<=, )-?(?:\d+|[A-Z_]+)(?=$)")
OPPOSITE = {
    "beq": "bne", "bne": "beq", "blt": "bge", "bge": "blt", "bltu": "bgeu", "bgeu": "bltu",
    "beqz": "bnez", "bnez": "beqz", "b.eq": "b.ne", "b.ne": "b.eq", "cbz": "cbnz", "cbnz": "cbz",
    "b.lo": "b.hs", "b.hs": "b.lo"
}


def in_assembly(lines: list[str], code: list[str]) -> Iterator[Edit]:
    for at, (line, bare) in enumerate(zip(lines, code)):
        if m := INSTRUCTION.match(bare):
            for kind, begin, end, new in words_of_assembly(m):
                yield Edit(kind, at, [line[:begin] + new + line[end:]])


def words_of_assembly(match: re.Match[str]) -> Iterator[tuple[str, int, int, str]]:
    yield "instruction", match.start(1), match.end(), ""
    if match[1] in OPPOSITE:
        yield "condition", match.start(1), match.end(1), OPPOSITE[match[1]]
    if match[2]:
        first = match.start(2)
        for word in REGISTER.finditer(match[2]):
            yield "register", first + word.start(), first + word.end(), neighbour(word[0])
        for word in OFFSET.finditer(match[2]):
            yield "offset", first + word.start(), first + word.end(), f"{word[0]} + 8"


def neighbour(register: str) -> str:
    bank = "x29" if register == "sp" else ""
    if register[1:].isdigit():
        bank = f"{register[0]}{int(register[1:]) + 1}"
    return OTHER.get(register) or bank


# ---- all mutants of a file ------------------------------------------------------

def mutants(file: str, text: str, lab: int) -> list[Mutant]:
    lines, code = text.split("\n"), blanked(text).split("\n")
    ours, names = solution(lines, lab), functions(code)
    found, seen = list[Mutant](), Counter[str]()
    for change in (in_assembly if Path(file).suffix == ".S" else in_c)(lines, code):
        at, end = change.first, change.first + len(change.lines)
        if not (change.anywhere or all(ours[at:end])):
            continue
        mutant = Mutant(file, at + 1, names[at], change.kind, shown(code[at:end]),
                        shown(change.lines), "\n".join([*lines[:at], *change.lines, *lines[end:]]))
        seen[mutant.id] += 1
        found.append(replace(mutant, nth=seen[mutant.id]))
    return found


def shown(lines: list[str]) -> str:
    """The lines as one line, without comments."""
    return re.sub(r"^;?$", LEFT_OUT,
                  " / ".join(filter(None, (" ".join(blanked(line).split()) for line in lines))))
