#!/usr/bin/python3
"""mksites.py riscv64|arm64 N[xBYTES]: assembly of N functions with call sites, for `make
BENCH_SITES=N`.

They are empty, and as small as possible, so that 100,000 of them are in reach
of one `jal`; or they have BYTES bytes each, so that a few make a large text.
A section ends after each 64 KiB, so that an island may follow there.
"""
import sys

NOPS = {"riscv64": 1, "arm64": 2}
SECTION = 1 << 16


def main() -> int:
    arch = sys.argv[1]
    count, size = map(int, (sys.argv[2] + "x0").split("x")[:2])
    code = 4 * (NOPS[arch] + 1)
    size = max(size & ~3, code)
    out = [
        '\t.macro site n\n\t.type site_\\n, %function\nsite_\\n:\n' + "\tnop\n" * NOPS[arch] +
        "\tret\n" + f"\t.zero {size - code}\n" * (size > code) + "\t.size site_\\n, . - site_\\n\n"
        "\t.endm\n"
    ]
    each = max(SECTION // size, 1)
    for i in range(count):
        if i % each == 0:
            out.append(f'\t.section .text.sites_{i // each}, "ax", %progbits\n\t.balign 4\n')
        out.append(f"\tsite {i}\n")
    for i in range(0, count, each):  # one a section: assembling is quadratic in their number
        out.append(
            f'\t.section __patchable_function_entries, "awo", %progbits, site_{i}\n\t.balign 8\n')
        out += [f"\t.quad site_{n}\n" for n in range(i, min(i + each, count))]
    sys.stdout.write("".join(out))
    return 0


if __name__ == "__main__":
    sys.exit(main())
