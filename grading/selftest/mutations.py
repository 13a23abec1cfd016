"""Makes small semantic changes to C and assembly, at most four lines each.

Changes are made to the lines that a student writes: the solution's lines between `#if LAB_START ..`
and `#endif`. Statements that order stores, wait for other CPUs or exclude them are also removed or
weakened in the rest of the file, and two stores with one between them are also exchanged there.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import accumulate, pairwise
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
WEAKER = {"smp_mb": "smp_wmb", "smp_wmb": "barrier", "smp_rmb": "barrier"}
NARROWER = {"unsigned long": "unsigned", "long": "int", "u64": "u32", "int64_t": "int32_t",
            "uint64_t": "uint32_t", "u32": "u16"}
WIDE = re.compile(r"\b(?:unsigned long|long|u64|u?int64_t|u32(?= \*\)))\b")
ERROR = re.compile(r"-E[A-Z0-9]+\b")
CALLED = re.compile(r"(?:\berr = |\breturn )(?=\w+\()")  # and its error is kept
CHOICE = re.compile(r"(?:\breturn|[^=!<>]=) ([^?;]+)(?= \? )")
TIGHTER = {"|": "", "&&": "|", "||": "| &&"}  # of these operators those that bind more tightly
LOGICAL = re.compile(r" (?:&&|\|\|?)(?: |$)")
BESIDE = re.compile(r"[(\[{,;]| (?:&&|\|\|?|[-+|&^]?=|[?:])(?= |$)|\breturn\b|^\t+")  # an operand
LOOP = re.compile(r"\bfor \([^;=]* = ([^;,]+);[^;]*? [<>]=? ([^;&]+?)(?=;| &&)")
OF_LIST = re.compile(r"(?<=; )(\w+)(?=; \1 = \1->(\w+)\))")
CALL = re.compile(r"\b\w+\((?=[^()])")
DECLARED = re.compile(
    r"\b((?:unsigned )?(?:long|int)|unsigned|bool|u\d\d|u?int\d+_t|struct \w+ \*+) ?"
    r"(?!long\b|int\b)(\w+)(?= ?[,);=])")
ONE_OF_ITS_KIND = (re.compile(r"\b(\w+(?:->|\.))([a-z]\w*)\b(?!\()"),  # a field of the same object
                   re.compile(r"\b([A-Z][A-Z_]*_)([A-Z]+)\b(?!\()"))  # a constant
ONCE = re.compile(r"\s*(?:synchronize_|mutex_assert_|barrier|smp_|return\b|goto\b)")
NO_STATEMENT = re.compile(
    r"\s*(?:if|for|while|else|switch|case|do|[{}#;]|"
    r"(?:const|struct|unsigned|long|int|u8|u16|u32|u64|bool|char|u?int\d+_t|static|extern)\b)"
)


def in_c(lines: list[str], code: list[str]) -> Iterator[Edit]:
    for at, line in enumerate(lines):
        for kind, begin, end, new in [*words_of_c(code[at]),
                                      *(arguments(code[at]) if '"' not in line else [])]:
            yield Edit(kind, at, [line[:begin] + new + line[end:]])
    yield from statements(code)
    yield from others(lines, code)


def words_of_c(code: str) -> Iterator[tuple[str, int, int, str]]:
    """For each possible change of a line: its kind, the start and end column, the new text."""
    for m in OPERATOR.finditer(code):
        yield "operator", m.start(), m.end(), EXCHANGED[m[0]]
    for m in CONDITION.finditer(code):
        if end := closing(code, m.end()):
            yield "condition", m.end(), end, f"!({code[m.end():end]})"
            yield "guard", m.end(), end, f"0 && ({code[m.end():end]})"
            if m[0] == "if (":
                yield "guard", m.end(), end, f"1 || ({code[m.end():end]})"
    for m in re.finditer(r"!(?=[\w(])", code):
        yield "condition", m.start(), m.end(), ""
    for m in re.finditer(r"\b(?:true|false)\b", code):
        yield "constant", m.start(), m.end(), "false" if m[0] == "true" else "true"
    for m in NUMBER.finditer(code):
        for value in sorted({int(m[1], 0) + 1, abs(int(m[1], 0) - 1)}):
            yield "constant", m.start(), m.end(), hex(value) if "x" in m[1] else str(value)
    for m in CHOICE.finditer(code):
        yield "guard", m.start(1), m.end(1), f"0 && ({m[1]})"
        yield "guard", m.start(1), m.end(1), f"1 || ({m[1]})"
    for m in ERROR.finditer(code):
        yield "error", m.start(), m.end(), "-EFAULT" if m[0] == "-EINVAL" else "-EINVAL"
        yield "error", m.start(), m.end(), "0"
    for m in CALLED.finditer(code):
        yield "error", m.end(), m.end(), "0 * "
    for m in WIDE.finditer(code):
        yield "width", m.start(), m.end(), NARROWER[m[0]]
    for m in re.finditer(r"\b(?:break|continue)(?=;)", code):
        yield "jump", m.start(), m.end(), "break" if m[0] == "continue" else "continue"
    for m in LOOP.finditer(code):
        yield "loop", m.end(1), m.end(1), " + 1"
        yield "loop", m.end(2), m.end(2), " - 1"
    for m in OF_LIST.finditer(code):
        yield "loop", m.end(1), m.end(1), f" && {m[1]}->{m[2]}"
    yield from operands(code)


def depths(code: str) -> list[int]:
    """For each column: how many parentheses are open after it."""
    return list(accumulate((letter in "([{") - (letter in ")]}") for letter in code))


def operands(code: str) -> Iterator[tuple[str, int, int, str]]:
    """Leave out an operand of `&&`, `||` or `|`."""
    depth = depths(code)
    for m in LOGICAL.finditer(code):
        level = depth[m.start()]
        beside = [other for other in BESIDE.finditer(code) if depth[other.start()] == level
                  and other[0].strip() not in TIGHTER[m[0].strip()].split()]
        left = max((other.end() for other in beside if other.end() <= m.start()), default=0)
        right = min([*(other.start() for other in beside if other.start() >= m.end()),
                     *(n for n in range(m.end(), len(code)) if depth[n] < level), len(code)])
        yield "operand", left + code[left:].startswith(" "), m.end(), ""
        if m.end() < right:
            yield "operand", m.start(), right, ""


def arguments(code: str) -> Iterator[tuple[str, int, int, str]]:
    """Exchange two neighbouring arguments of a call."""
    depth = depths(code)
    for m in CALL.finditer(code):
        end = closing(code, m.end())
        commas = [n for n in range(m.end(), end)
                  if code[n] == "," and depth[n] == depth[m.end() - 1]]
        for (at, comma), (_, after) in pairwise(pairwise([m.end() - 1, *commas, end])):
            first, second = code[at + 1:comma].strip(), code[comma + 1:after].strip()
            yield "arguments", after - len(code[at + 1:after].lstrip()), after, f"{second}, {first}"


def others(lines: list[str], code: list[str]) -> Iterator[Edit]:
    """Exchange a field for another of the same object, a constant for another whose name begins
    alike, a variable for another of the same type in the same function."""
    kinds, names = defaultdict[str, list[str]](list), functions(code)
    for name, line in zip(names, code):
        for m in (m for pattern in ONE_OF_ITS_KIND for m in pattern.finditer(line)):
            kinds[m[1]].append(m[2])
        for m in DECLARED.finditer(line):
            kinds[f"{name} {m[1]}"].append(m[2])
    for at, (name, line) in enumerate(zip(names, code)):
        found = [(m[1], m.start(2), m[2]) for pattern in ONE_OF_ITS_KIND
                 for m in pattern.finditer(line)]
        declared = {m.start(2) for m in DECLARED.finditer(line)}
        found += [(kind, m.start(), m[0]) for kind in kinds if kind.startswith(f"{name} ")
                  for m in re.finditer(rf"(?<![.>\w])(?:{'|'.join(kinds[kind])})\b(?!\()", line)
                  if m.start() not in declared]
        for kind, begin, old in found:
            ring = list(dict.fromkeys(kinds[kind]))
            new = ring[(ring.index(old) + 1) % len(ring)]
            if new != old:
                yield Edit("name", at, [lines[at][:begin] + new + lines[at][begin + len(old):]])


def closing(code: str, at: int) -> int:
    """The column at which the parenthesis before `at` is closed; 0: on another line."""
    depth = 1
    for n, letter in enumerate(code[at:], at):
        depth += (letter == "(") - (letter == ")")
        if not depth:
            return n
    return 0


def statements(code: list[str]) -> Iterator[Edit]:
    before, heading = "", ""  # the line of code before this one; the function's first
    for at, line in enumerate(code):
        if not line.strip():
            continue
        heading = line if re.match(r"\w+ ", line) else heading
        starts = (not before or before.startswith("#") or before[-1] in ";{}):"
                  or before.endswith("else"))
        before = line.rstrip()
        if (not starts or NO_STATEMENT.match(line) or not line.startswith("\t")
                or line.startswith("\treturn ")):
            yield from exchanged_checks(code, at)
            continue
        end = next((n for n in range(at, len(code)) if code[n].rstrip().endswith(";")), at)
        orders = bool(BARRIER.match(line) or WAITS.match(line))
        yield Edit("order" if orders else "statement", at, [indent(line) + ";", *[""] * (end - at)],
                   orders)
        for name in WEAKER.keys() & {line.strip().removesuffix("();")}:
            yield Edit("order", at, [f"{indent(line)}{WEAKER[name]}();"], True)
        nothing = "" if re.search(r"\bvoid \w+\(", heading) else " 0"
        yield Edit("return", at, [f"{indent(line)}return{nothing};", *[""] * (end - at)])
        if end == at and not (STORE.match(line) or ONCE.match(line)):
            yield Edit("twice", at, [f"{line.rstrip()} {line.strip()}"])
        yield from exchanged(code, at)


def indent(line: str) -> str:
    return line[:len(line) - len(line.lstrip())]


def exchanged(code: list[str], at: int) -> Iterator[Edit]:
    """Exchange the statement on this line with the next one at the same depth. A barrier between
    them stays between them."""
    end = next((n for n in range(at + 1, len(code)) if not BARRIER.match(code[n])), at)
    pair = [code[at].rstrip(), code[end].rstrip()]
    if any(NO_STATEMENT.match(line) or indent(line) != indent(code[at]) for line in pair):
        return
    swapped = [code[end], *code[at + 1:end], code[at]]
    if all(STORE.match(line) or WAITS.match(line) for line in pair):
        orders = end > at + 1 or any(WAITS.match(line) for line in pair)
        yield Edit("order" if orders else "exchanged stores", at, swapped, orders)
    elif all(re.match(r"(?!\s*(?:return|goto)\b).*;$", line) for line in pair):
        yield Edit("exchanged", at, swapped)


def exchanged_checks(code: list[str], at: int) -> Iterator[Edit]:
    """Exchange an `if` that returns on its second line with the next one."""
    first, second = code[at:at + 2], code[at + 2:at + 4]
    if (all("".join(pair).count(";") == 1 and re.match(r"\s*if \(.*\n\s*return\b", "\n".join(pair))
            for pair in (first, second)) and first[1] != second[1]):
        yield Edit("exchanged checks", at, [*second, *first])


# ---- assembly -------------------------------------------------------------------

INSTRUCTION = re.compile(r"(?:\w+:)?\s+([a-z][\w.]*)(?:\s+(\S.*?))?\s*$")
REGISTER = re.compile(r"\b(?:a[0-7]|t[0-6]|s0|ra|x\d+|sp)\b(?!\()")
OTHER = {
    "ra": "t0", "s0": "sp", "sp": "fp", "a7": "a6", "t6": "t5", "x17": "x16", "x29": "x30",
    "x30": "x29"
}
OFFSET = re.compile(
    r"(?<=#)[^:,\]\s][^,\]]*|(?<=, )[^,%()]*(?=\(\w+\)$)|(?<=, )-?(?:\d+|[A-Z_]+)(?=$)")
NARROW = {"ld": "lw", "sd": "sw"}
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
            after = INSTRUCTION.match("".join(code[at + 1:at + 2]))
            if after and not re.match(r"\w+:", code[at + 1]) and depends(m, after):
                yield Edit("exchanged", at, [lines[at + 1], line])


def depends(first: re.Match[str], second: re.Match[str]) -> bool:
    """Does either of these instructions use the register that the other is about?"""
    return any(re.search(rf"\b{(one[2] or '').split(',')[0]}\b", other[2] or "")
               for one, other in ((first, second), (second, first)) if one[2])


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
        if pair := re.match(r"(\w+), (\w+)(?=,|$)", match[2]):
            yield "register", first, first + pair.end(), f"{pair[2]}, {pair[1]}"
        if match[1] in NARROW:
            yield "width", match.start(1), match.end(1), NARROW[match[1]]
        elif re.match(r"(?:ld|st)[rp]$", match[1]):
            names, *rest = re.split(r"(?=\[)", match[2])
            yield "width", first, match.end(2), names.replace("x", "w") + "".join(rest)
        if re.match(r"(\w+), .*\b\1\b", match[2]):
            yield "twice", match.end(2), match.end(2), f"; {match[1]} {match[2]}"


def neighbour(register: str) -> str:
    return OTHER.get(register) or f"{register[0]}{int(register[1:]) + 1}"


# ---- all mutants of a file ------------------------------------------------------

def mutants(file: str, text: str, lab: int) -> list[Mutant]:
    lines, code = text.split("\n"), blanked(text).split("\n")
    ours, names = solution(lines, lab), functions(code)
    found, seen, texts = list[Mutant](), Counter[str](), {text}
    for change in (in_assembly if Path(file).suffix == ".S" else in_c)(lines, code):
        at, end = change.first, change.first + len(change.lines)
        if not (change.anywhere or all(ours[at:end])):
            continue
        changed = "\n".join([*lines[:at], *change.lines, *lines[end:]])
        if changed in texts:
            continue
        mutant = Mutant(file, at + 1, names[at], change.kind, shown(code[at:end]),
                        shown(change.lines), changed)
        texts.add(changed)
        seen[mutant.id] += 1
        found.append(replace(mutant, nth=seen[mutant.id]))
    return found


def shown(lines: list[str]) -> str:
    """The lines as one line, without comments."""
    return re.sub(r"^;?$", LEFT_OUT,
                  " / ".join(filter(None, (" ".join(blanked(line).split()) for line in lines))))
