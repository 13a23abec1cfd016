"""A graded boot of labs 5 and 6: types the commands that use function_graph, and keeps their output
as evidence."""

import random
import re

from grading.elf.elf import KERNEL_BASE, Kernel, Site
from grading.evidence.evidence import Filter, HandUser, Phase, Spoilt, User
from grading.machine.hold import interleaved
from grading.machine.machine import Run
from grading.session.session import GLOBS, WORKLOAD_SECONDS, Session, filters, make_filter
from grading.stimulus import workload
from grading.text import graph_text
from grading.truth.returns import ends

# With these each printed line has its time, CPU and thread, and each closing brace has the
# function's name and return value.
OPTIONS = ("funcgraph-abstime", "funcgraph-proc", "funcgraph-tail", "funcgraph-retval")
INSTANCE = "instances/second/"
BEFORE = "wl_begin"  # the first filter of the two users, replaced after they are registered
# instructions: more than a change of the users executes before it waits for the CPU that is held
CHANGE_INSNS = 3_000_000
HANDS = 16
# the shadow stack has room for the entry data of so many users, at the depth of the workload's
# calls
KEEPERS = 4
FOR_EVER = 1_000_000  # seconds: a program that sleeps this long is killed
LOOKS = 100  # times that the stacks are printed until the program sleeps


def together(users: list[User]) -> Filter:
    names = frozenset(name for user in users for name in user.filter.names)
    return Filter(" and ".join(" but ".join(filter(None, (u.filter.filter, u.filter.notrace)))
                               for u in users), "", names)


def hands(kernel: Kernel, seed: int) -> list[HandUser]:
    """Sixteen users, some of each kind, each with a filter that the seed chooses."""
    rng = random.Random(seed)
    kinds = ["keep"] * KEEPERS + ["skip"] * 3 + ["see"] * (HANDS - KEEPERS - 3)
    rng.shuffle(kinds)
    chosen = [rng.choice([*GLOBS, "wl_*"]) for _ in kinds]
    return [HandUser(n, kind, glob, make_filter(kernel, glob, "").names)
            for n, (kind, glob) in enumerate(zip(kinds, chosen))]


class GraphSession(Session):
    """One boot with function_graph: one user, then two, then a user that is unregistered during the
    workload; then every function is traced."""

    def _talk(self, machine: Run, rng: random.Random) -> None:
        e = self._evidence
        everything, chosen = filters(self._kernel, rng.getrandbits(64))
        other = filters(self._kernel, rng.getrandbits(64))[1]
        self._phase(machine, Phase("before", rng.getrandbits(64), None))
        self._graph(machine, "trace 1", rng.getrandbits(64), [User("", everything)])
        if e.lab == 5:
            with machine.observer.ordering():
                self._graph(machine, "trace 2", rng.getrandbits(64), [User("", chosen)])
                self._kept(machine)
            self._later_user(machine)
        else:
            self._quiet(machine, f"mkdir {INSTANCE.rstrip('/')}")
            with machine.observer.ordering():
                self._graph(machine, "two users", rng.getrandbits(64),
                            [User("", chosen), User(INSTANCE, other)], BEFORE)
            self._graph(machine, "one unregistered", rng.getrandbits(64),
                        [User("", chosen), User(INSTANCE, everything, leaves=True)])
            self._quiet(machine, f"rmdir {INSTANCE.rstrip('/')}")
            with machine.observer.ordering():
                self._by_hand(machine, rng.getrandbits(64), hands(self._kernel,
                                                                  rng.getrandbits(64)))
            self._slot_again(machine)
            self._walk(machine)
        self._frames_out(machine, Phase("frames out", rng.getrandbits(64), None))
        self._phase(machine, Phase("after", rng.getrandbits(64), None))
        e.text_at_end = self._text(machine)
        # last of all: afterwards graph tracing may be off permanently
        if e.smp == 1 and not e.changed_at_rest(e.text_at_end):
            self._say("an interrupt at each instruction")
            e.interrupted = machine.observer.written()
            with machine.observer.recording(), machine.observer.ordering():
                machine.console.command("frames", WORKLOAD_SECONDS)
                machine.console.command("rare", WORKLOAD_SECONDS)
        elif e.lab == 6 and e.smp > 1:
            e.interrupted = machine.observer.written()
            self._change_inside(machine)
            self._leave_twice(machine)
        elif e.smp > 1:
            self._graph_call(machine, rng)

    def _graph(self, machine: Run, name: str, seed: int, users: list[User],
               rewritten: str = "") -> None:
        """Run a workload with these users; a user that leaves does so during the workload.
        `rewritten`: a filter with which all users are registered; before the workload each of them
        gets its own."""
        phase = Phase(name, seed, together(users), users=users, rewritten=rewritten)
        self._evidence.phases.append(phase)
        self._say(f"{name}: workload {seed:016x}, {phase.filter.filter if phase.filter else ''}")
        for user in users:
            first = Filter(rewritten or user.filter.filter, user.filter.notrace, frozenset())
            self._begin(machine, first, "function_graph", user.directory)
            for option in OPTIONS:
                self._quiet(machine, f"echo 1 > {user.directory}options/{option}")
        for user in users if rewritten else ():
            self._quiet(machine, f"echo '{user.filter.filter}' > {user.directory}set_ftrace_filter")
        self._enabled(machine, phase)
        with self._recorded(machine, phase):
            if any(user.leaves for user in users):
                self._leave_within(machine, phase)
            else:
                phase.output = self._workload(machine, seed)
            for user in users:
                self._quiet(machine, f"echo 0 > {user.directory}tracing_on")
        for user in users:
            if user.leaves:
                continue
            user.trace = graph_text.parse(
                machine.console.command(f"cat {user.directory}trace", WORKLOAD_SECONDS))
            for cpu in range(self._evidence.smp):
                user.stats[cpu] = graph_text.stats(
                    machine.console.command(f"cat {user.directory}per_cpu/cpu{cpu}/stats"))
        for user in users:
            self._end(machine, user.filter, user.directory)

    def _kept(self, machine: Run) -> None:
        """Lab 5: a user that keeps data between entry and return."""
        for line in ("echo sleep_ns > set_ftrace_filter", "echo 0 > options/sleep-time",
                     "echo function_graph > current_tracer", "sleep 0.001",
                     "echo nop > current_tracer", "echo 1 > options/sleep-time",
                     "echo > set_ftrace_filter"):
            self._quiet(machine, line)

    def _later_user(self, machine: Run) -> None:
        """Lab 5: a thread sleeps in a call that a user traces. Before it wakes, that user is
        unregistered, and another one is registered, for another function."""
        observer = machine.observer
        self._say("a user is registered while an earlier user's call sleeps")
        self._quiet(machine, "echo sleep_ns > set_ftrace_filter")
        self._quiet(machine, "echo function_graph > current_tracer")
        job = self._asleep(machine, f"sleep {FOR_EVER}")
        first = observer.written()
        with observer.recording():
            self._quiet(machine, f"echo nop > current_tracer; echo {BEFORE} > set_ftrace_filter")
            self._quiet(machine, "echo function_graph > current_tracer")
            machine.console.command(f"kill {job}; wait", WORKLOAD_SECONDS)
            self._quiet(machine, "echo nop > current_tracer; echo > set_ftrace_filter")
        self._evidence.slot_again = (first, observer.written())

    def _graph_call(self, machine: Run, rng: random.Random) -> None:
        """Lab 5: overwrite the nop at ftrace_graph_call. The kernel must notice it when a user is
        registered. This comes last, because such a kernel starts no further tracer."""
        e, address = self._evidence, self._kernel.symbol("ftrace_graph_call")
        stub = self._kernel.function_at(address)
        if not stub:
            return
        self._say("another word at ftrace_graph_call")
        nop = self._kernel.word(address)
        e.spoilt = was = Spoilt(Site(address, stub, nop, nop),
                                self._kernel.isa.idle(rng.getrandbits(30)), rng.getrandbits(64))
        machine.write(self._machine.load_address() + address - KERNEL_BASE,
                      was.word.to_bytes(4, "little"))
        with self._recorded(machine, was):
            was.printed = machine.console.command("echo function_graph > current_tracer")
            was.text = self._text(machine)
            was.output = self._workload(machine, was.seed)

    def _enabled(self, machine: Run, phase: Phase) -> None:
        phase.text = self._text(machine)
        phase.files = {"enabled_functions": machine.console.command("cat enabled_functions")}

    def _leave_within(self, machine: Run, phase: Phase) -> None:
        """Start the workload, and unregister the last user while a thread is held inside traced
        calls.

        With one CPU no thread is held: a workload is shorter than a time slice, so the user is
        unregistered before it or after it.
        """
        begin, leave = (f"workload {phase.seed:016x} &",
                        f"echo nop > {phase.users[-1].directory}current_tracer")
        if self._evidence.smp == 1:
            phase.output = machine.console.command(f"{begin} ; {leave}; wait", WORKLOAD_SECONDS)
            return
        console, inside = machine.console, {s.address for s in self._kernel.sites
                                            if s.function.name == workload.WIDE}
        with interleaved(machine) as cpus:
            cpus.begin(begin)
            # the first CPU here runs a thread: the workload's interrupts come later
            held = cpus.reach(inside)
            if held is not None:
                cpus.serve(held)
            cpus.run(console.at_prompt)
            cpus.begin(f"taskset -c {((held or 0) + 1) % self._evidence.smp} {leave}")
            cpus.run(console.at_prompt)
            cpus.begin("wait")
        phase.output = console.wait_ready(WORKLOAD_SECONDS)

    def _by_hand(self, machine: Run, seed: int, users: list[HandUser]) -> None:
        """Run a workload with as many users as there are slots, after one more user was refused."""
        names = frozenset(name for user in users for name in user.names)
        phase = Phase("sixteen users", seed, Filter("wl_*", "", names), hands=users)
        self._evidence.phases.append(phase)
        self._say(f"{phase.name}: workload {seed:016x}")
        for user in users:
            self._quiet(machine, f"fgraph_op {user.number} {user.kind} {user.filter}")
        phase.refused = machine.console.command(f"fgraph_op {HANDS} see wl_*")
        self._enabled(machine, phase)
        with self._recorded(machine, phase):
            phase.output = self._workload(machine, seed)
        self._quiet(machine, "fgraph_op 0 off")
        # now a slot in the middle is given to a new user
        self._quiet(machine, f"fgraph_op 0 see {BEFORE}")
        for user in users:
            self._quiet(machine, f"fgraph_op {user.number} off")

    def _slot_again(self, machine: Run) -> None:
        """A slot gets a second owner while a thread sleeps in a call with a frame of the first
        owner. When the thread wakes, `time` calls printk while that old frame, with the first
        owner's data, is still on the shadow stack."""
        observer = machine.observer
        self._say("a slot gets a new user while a thread sleeps")
        first = observer.written()
        with observer.recording():
            self._quiet(machine, "fgraph_op 0 keep sleep_ns time_main")
            job = self._asleep(machine, f"time sleep {FOR_EVER}")
            machine.console.command("fgraph_op 0 off; fgraph_op 1 see sleep_ns printk; kill "
                                    f"{job}; wait; fgraph_op 1 off", WORKLOAD_SECONDS)
        self._evidence.slot_again = (first, observer.written())

    def _change_inside(self, machine: Run) -> None:
        """A user is registered while another CPU calls the entry handlers, and one is unregistered
        while another CPU is in its return handler and has not looked for the entry data yet."""
        self._say("users are registered and unregistered while handlers run")
        observer, symbol = machine.observer, self._kernel.symbol
        site = next(s.address for s in self._kernel.sites if s.function.name == "uptime_main")
        first = observer.written()
        with observer.recording():
            self._quiet(machine, "fgraph_op 0 keep uptime_main")
            self._inside(machine, "fgraph_op 1 see uptime_main", site, symbol("hand_entry"))
            self._quiet(machine, "fgraph_op 1 off")
            self._inside(machine, "fgraph_op 0 off", site + 4, symbol("fgraph_retrieve_data"))
        self._evidence.changed_inside = (first, observer.written())

    def _inside(self, machine: Run, line: str, waits: int, place: int) -> None:
        """CPU 0 makes a traced call, and CPU 1 changes the users in its midst: CPU 0 waits outside
        of the tracer until a grace period of CPU 1 is over, then goes on to the place, where it is
        held until CPU 1 begins its next grace period, or waits for CPU 0 to answer."""
        with interleaved(machine) as cpus:
            cpus.begin("taskset -c 0 uptime &")
            if cpus.reach({waits}) == 0:
                cpus.serve(0)
                cpus.run(machine.console.at_prompt)
                cpus.begin(f"taskset -c 1 {line}")
                changes = cpus.reach(ends(self._kernel, "synchronize_sched"))
                cpus.go(0)
                if changes is not None and cpus.reach({place}) == 0:
                    cpus.go(changes)
                    cpus.reach({self._kernel.symbol("synchronize_sched")}, insns=CHANGE_INSNS)
        machine.console.wait_ready(WORKLOAD_SECONDS)
        machine.console.command("wait", WORKLOAD_SECONDS)

    def _leave_twice(self, machine: Run) -> None:
        """Two CPUs unregister one user. The first CPU is held at the first instruction of
        mutex_lock until the second has unregistered it and registered another."""
        self._say("two CPUs unregister one user")
        observer, at_prompt = machine.observer, machine.console.at_prompt
        unregister, lock, left = map(self._kernel.symbol,
                                     ("unregister_ftrace_graph", "mutex_lock", "rare_left"))
        first = observer.written()
        with observer.recording():
            with interleaved(machine) as cpus:
                cpus.begin("taskset -c 0 rare leave")
                held = cpus.reach({unregister}, until=at_prompt)
                if held is not None and cpus.alone(held, lock):
                    cpus.serve(held)
                    cpus.run(lambda: observer.has(first, {left}))
            machine.console.wait_ready(WORKLOAD_SECONDS)

    def _walk(self, machine: Run) -> None:
        """Print the stack of a thread that sleeps in a call whose return is patched."""
        self._say("a stack with a patched return in it")
        self._quiet(machine, "fgraph_op 0 see sleep_ns")
        job = self._asleep(machine, f"sleep {FOR_EVER}")
        self._quiet(machine, "fgraph_op 0 off")
        machine.console.command(f"kill {job}; wait", WORKLOAD_SECONDS)

    def _asleep(self, machine: Run, program: str) -> str:
        """Start a program, and print the stacks until one of them shows that it sleeps. Returns the
        number of its job."""
        job = re.search(r"^\[(\d+)\]", machine.console.command(f"{program} &"), re.M)
        for _ in range(LOOKS):
            self._evidence.walk = machine.console.command("ps -s", WORKLOAD_SECONDS)
            if "sleep_ns+" in self._evidence.walk:
                break
        return job[1] if job else "1"

    def _frames_out(self, machine: Run, phase: Phase) -> None:
        """Trace every function, and switch the tracer off at once: the thread that does so is still
        inside many traced calls."""
        observer = machine.observer
        self._evidence.frames_out = (observer.written(), 0)
        with machine.observer.recording():
            self._quiet(machine, "echo function_graph > current_tracer; echo nop > current_tracer")
        self._evidence.frames_out = (self._evidence.frames_out[0], observer.written())
        self._phase(machine, phase)
