#!/usr/bin/python3
"""mksites.py riscv64|arm64 N: assembly of N empty functions with call sites, for `make BENCH_SITES=N`.

They are as small as functions get, so that 100,000 of them lie in reach of
one `jal`.
"""
import sys

NOPS = {"riscv64": 1, "arm64": 2}


def main() -> int:
    arch, count = sys.argv[1], int(sys.argv[2])
    nops = "\tnop\n" * NOPS[arch]
    out = ["\t.text\n\t.balign 4\n"]
    out += [f"\t.type site_{i}, %function\nsite_{i}:\n{nops}\tret\n\t.size site_{i}, . - site_{i}\n"
            for i in range(count)]
    out.append('\t.section __patchable_function_entries, "awo", %progbits, site_0\n\t.balign 8\n')
    out += [f"\t.quad site_{i}\n" for i in range(count)]
    sys.stdout.write("".join(out))
    return 0


if __name__ == "__main__":
    sys.exit(main())
