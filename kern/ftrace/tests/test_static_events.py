"""Static events, typed at the console of a booted kernel: each one's fields and text, filters,
triggers and instances."""
import re
import unittest

from kern.ftrace.tests.test_probe_events import COMMON, OnAMachine

EVENTS = {
    "sched": "sched_switch:100 sched_waking:101 sched_wakeup:102 sched_wakeup_new:103 "
             "sched_migrate_task:104 sched_process_fork:105 sched_process_exit:106",
    "irq": "irq_handler_entry:110 irq_handler_exit:111",
    "ipi": "ipi_entry:120 ipi_exit:121",
    "timer": "timer_expire_entry:130 timer_expire_exit:131",
    "kmem": "kmalloc:140 kfree:141",
    "module": "module_load:150 module_free:151"
}
IDS = {f"{group}/{event.split(':')[0]}": int(event.split(":")[1])
       for group, events in EVENTS.items() for event in events.split()}
# What Linux 6.12 has in these files, without the fields that this kernel has no values for.
SWITCH = """\
	field:char prev_comm[16];	offset:8;	size:16;	signed:0;
	field:pid_t prev_pid;	offset:24;	size:4;	signed:1;
	field:int prev_prio;	offset:28;	size:4;	signed:1;
	field:long prev_state;	offset:32;	size:8;	signed:1;
	field:char next_comm[16];	offset:40;	size:16;	signed:0;
	field:pid_t next_pid;	offset:56;	size:4;	signed:1;
	field:int next_prio;	offset:60;	size:4;	signed:1;

print fmt: "prev_comm=%s prev_pid=%d prev_prio=%d prev_state=%s%s ==> next_comm=%s next_pid=%d \
next_prio=%d", REC->prev_comm, REC->prev_pid, REC->prev_prio, (REC->prev_state & 0xff) ? \
__print_flags(REC->prev_state & 0xff, "|", { 0x00000001, "S" }, { 0x00000020, "Z" }) : "R", \
REC->prev_state & 0x100 ? "+" : "", REC->next_comm, REC->next_pid, REC->next_prio
"""
HANDLER = """\
	field:int irq;	offset:8;	size:4;	signed:1;
	field:__data_loc char[] name;	offset:12;	size:4;	signed:0;

print fmt: "irq=%d name=%s", REC->irq, __get_str(name)
"""
KFREE = """\
	field:unsigned long call_site;	offset:8;	size:8;	signed:0;
	field:const void * ptr;	offset:16;	size:8;	signed:0;

print fmt: "call_site=%pS ptr=%p", (void *)REC->call_site, REC->ptr
"""
LINE = re.compile(r"^ +(\S+)-(\d+) +\[(\d+)\] (\S+) +(\d+\.\d+): (\w+): (.*)$", re.M)
WORKLOAD = "workload 0123456789abcdef"
SWITCHED = re.compile(r"prev_comm=(\S+) prev_pid=(\d+) prev_prio=120 prev_state=(\S+) ==> "
                      r"next_comm=(\S+) next_pid=(\d+) next_prio=120")
PASSED = re.compile(r"comm=(\S+) pid=(\d+) prio=120 target_cpu=(\d{3})")


class Event:
    """A line of `trace`."""

    def __init__(self, found: tuple[str, ...]) -> None:
        self.comm, self.flags, self.name, self.text = found[0], found[3], found[5], found[6]
        self.pid, self.cpu = int(found[1]), int(found[2])


class OnStaticEvents(OnAMachine):
    name = "static-events"

    def trace(self, command: str, *files: str) -> list[Event]:
        """What was recorded while the command ran with these files `enable` on."""
        self.assertEqual(self.sh("echo > trace"), "")
        for on in "10":
            for file in files:
                self.assertEqual(self.sh(f"echo {on} > events/{file}/enable"), "", file)
            if on == "1":
                self.sh(command)
        text = self.sh("cat trace")
        count = re.search(r"entries-written: (\d+)/(\d+) ", text)
        self.assertTrue(count and count[1] == count[2], "nothing was overwritten")
        events = [Event(found) for found in LINE.findall(text)]
        self.assertEqual(len(events), int(count[1]) if count else 0, text[-2000:])
        return events

    def setUp(self) -> None:
        super().setUp()
        for name in IDS:
            self.sh(f"echo 0 > events/{name}/filter")

    # ---- What the files say ----

    def test_each_has_its_place_and_its_id(self) -> None:
        self.assertEqual(self.sh("cat available_events").split(),
                         [name.replace("/", ":") for name in IDS])
        for name, number in IDS.items():
            self.assertEqual(self.sh(f"cat events/{name}/id events/{name}/enable"),
                             f"{number}\n0\n", name)
            self.assertTrue(
                self.sh(f"cat events/{name}/format").startswith(
                    f"name: {name.split('/')[1]}\nID: {number}\nformat:\n{COMMON}"), name)
        for name, fields in (("sched/sched_switch", SWITCH), ("irq/irq_handler_entry", HANDLER),
                             ("kmem/kfree", KFREE)):
            self.assertEqual(self.sh(f"cat events/{name}/format").partition(COMMON)[2], fields)

    # ---- What is recorded ----

    def test_switches_of_a_cpu_follow_each_other(self) -> None:
        """The thread that a CPU leaves is the one that it took before."""
        events = self.trace(WORKLOAD, "sched/sched_switch")
        runs: dict[int, tuple[str, int]] = {}
        self.assertGreaterEqual(len(events), 4)
        states = set()
        for event in events:
            found = SWITCHED.fullmatch(event.text)
            assert found, event.text
            prev, following = (found[1], int(found[2])), (found[4], int(found[5]))
            self.assertEqual(event.pid, prev[1])
            self.assertEqual(event.flags[0], "d")
            self.assertEqual(runs.get(event.cpu, prev), prev, event.text)
            self.assertEqual(prev[1] == 0, prev[0] == f"swapper/{event.cpu}")
            self.assertNotEqual(prev, following)
            if not prev[1]:
                self.assertEqual(found[3], "R")
            states.add(found[3])
            runs[event.cpu] = following
        self.assertLessEqual({"R", "S", "Z"}, states)
        self.assertLessEqual(states, {"R", "S", "Z", "R+"})

    def test_who_wakes_up_runs_next(self) -> None:
        """waking, wakeup, and then a switch to the thread, on the CPU that was named or, if it has
        migrated, on that one; and it has left a CPU with S before."""
        events = self.trace(WORKLOAD, "sched")
        woken: dict[int, str] = {}
        cpus: dict[int, int] = {}
        slept: set[int] = set()
        seen = {event.name for event in events}
        for event in events:
            if found := SWITCHED.fullmatch(event.text):
                pid = int(found[5])
                if pid in woken:
                    self.assertIn(woken.pop(pid), ("sched_wakeup", "sched_wakeup_new"))
                    self.assertEqual(cpus[pid], event.cpu, event.text)
                if found[3] == "S":
                    slept.add(int(found[2]))
            elif found := PASSED.fullmatch(event.text):
                pid, last = int(found[2]), woken.get(int(found[2]))
                self.assertEqual(last == "sched_waking", event.name == "sched_wakeup", event.text)
                woken[pid], cpus[pid] = event.name, int(found[3])
            elif event.name == "sched_migrate_task":
                moved = re.fullmatch(r"comm=\S+ pid=(\d+) prio=120 orig_cpu=(\d+) dest_cpu=(\d+)",
                                     event.text)
                assert moved, event.text
                self.assertNotEqual(moved[2], moved[3])
                if int(moved[1]) in cpus:
                    self.assertEqual(cpus[int(moved[1])], int(moved[2]))
                cpus[int(moved[1])] = int(moved[3])
        self.assertLessEqual({"sched_switch", "sched_waking", "sched_wakeup", "sched_wakeup_new"},
                             seen)
        self.assertTrue(slept)

    def test_threads_are_born_and_end(self) -> None:
        events = self.trace(WORKLOAD, "sched")
        born: dict[int, str] = {}
        ended: list[int] = []
        for event in events:
            if event.name == "sched_process_fork":
                found = re.fullmatch(r"comm=(\S+) pid=(\d+) child_comm=(\S+) child_pid=(\d+)",
                                     event.text)
                assert found, event.text
                self.assertEqual((found[1], int(found[2])), (event.comm, event.pid))
                born[int(found[4])] = found[3]
            elif event.name == "sched_wakeup_new":
                self.assertIn(int(event.text.split("pid=")[1].split()[0]), born)
            elif event.name == "sched_process_exit":
                self.assertRegex(event.text, rf"comm={event.comm} pid={event.pid} prio=120")
                ended.append(event.pid)
        self.assertEqual(sorted(ended), sorted(born))
        self.assertEqual(set(born.values()), {"workload"})
        self.assertGreater(len(born), 1)

    def test_memory_is_given_and_taken_back(self) -> None:
        self.addCleanup(self.sh, "echo nop > current_tracer; echo > set_ftrace_filter")
        self.sh("echo k*alloc kfree > set_ftrace_filter")
        for tracer in ("nop", "function_graph"):
            self.sh(f"echo {tracer} > current_tracer; echo 1 > events/kmem/enable; echo > trace; "
                    "cat /etc/nosuch; echo 0 > events/kmem/enable")
            text = self.sh("cat trace")
            self.assertEqual("kmalloc() {" in text, tracer == "function_graph", text)
            given = re.findall(r"kmalloc: call_site=(\w+)\+0x\w+/0x\w+ ptr=([0-9a-f]{16}) "
                               r"bytes_req=(\d+) bytes_alloc=(\d+)", text)
            taken = re.findall(r"kfree: call_site=(\w+)\+0x\w+/0x\w+ ptr=([0-9a-f]{16})", text)
            self.assertEqual(len(given) + len(taken), len(re.findall(r"(?:kmalloc|kfree): ", text)))
            self.assertLessEqual({"file_open", "alloc_thread"}, {name for name, *_ in given}, text)
            self.assertIn("thread_join", {name for name, _ in taken})
            self.assertFalse({"kzalloc", "krealloc", "return_to_handler"} &
                             {name for name, *_ in given + taken})
            for _, _, wanted, size in given:
                self.assertTrue(0 < int(wanted) <= int(size))
            thread = next(ptr for name, ptr, *_ in given if name == "alloc_thread")
            self.assertIn(thread, [ptr for _, ptr in taken])

    def pairs(self, events: list[Event], entry: str, leave: str) -> list[tuple[str, str]]:
        """The texts of each entry and the exit that follows it on its CPU."""
        inside: dict[int, str] = {}
        found = []
        paired = set()  # CPUs; before a CPU's first pair, only the entry may have been enabled
        for event in events:
            if event.name == entry:
                self.assertFalse(event.cpu in paired and event.cpu in inside)
                inside[event.cpu] = event.text
            elif event.name == leave and event.cpu in inside:
                found.append((inside.pop(event.cpu), event.text))
                paired.add(event.cpu)
            self.assertEqual(event.flags[2], "h", event.text)
        self.assertNotEqual(found, [])
        return found

    def test_interrupts(self) -> None:
        for entry, leave in self.pairs(self.trace("cat /etc/nosuch", "irq"), "irq_handler_entry",
                                       "irq_handler_exit"):
            number = entry.split()[0]
            self.assertEqual((entry, leave),
                             (f"{number} name=uart_interrupt", f"{number} ret=handled"))

    def test_timers(self) -> None:
        for entry, leave in self.pairs(self.trace("sleep 0.1", "timer"), "timer_expire_entry",
                                       "timer_expire_exit"):
            found = re.fullmatch(r"(timer=[0-9a-f]{16}) function=handle_timer now=(\d+) "
                                 r"baseclk=(\d+)", entry)
            assert found, entry
            self.assertEqual(leave, found[1])
            self.assertGreaterEqual(int(found[2]), int(found[3]))

    def test_interrupts_between_cpus(self) -> None:
        events = self.trace(WORKLOAD, "ipi")
        if self.cpus == 1:
            return self.assertEqual([event for event in events if event.cpu], [])
        reasons = set()
        for entry, leave in self.pairs(events, "ipi_entry", "ipi_exit"):
            self.assertEqual(entry, leave)
            reasons.add(entry)
        self.assertEqual(reasons, {"(Rescheduling interrupts)", "(Function call interrupts)"})
        return None

    def test_modules(self) -> None:
        events = self.trace("insmod ramfs; rmmod ramfs", "module")
        self.assertEqual([(event.name, event.text) for event in events],
                         [("module_load", "ramfs"), ("module_free", "ramfs")])

    # ---- Filters, triggers, instances ----

    def test_a_filter_of_each_kind_of_field(self) -> None:
        for event, text, command, kept in (
                ("sched/sched_switch", 'prev_comm == "workload"', WORKLOAD, "prev_comm=workload "),
                ("sched/sched_switch", 'next_comm ~ "swap*"', WORKLOAD, "next_comm=swapper/"),
                ("sched/sched_switch", "prev_pid == 1", WORKLOAD, "prev_pid=1 "),
                ("sched/sched_switch", "prev_state == 32", WORKLOAD, "prev_state=Z "),
                ("kmem/kmalloc", "bytes_req == 40", "cat /etc/nosuch", "bytes_req=40 "),
                ("irq/irq_handler_entry", 'name ~ "uart*"', "cat /etc/nosuch", "name=uart_"),
                ("module/module_load", 'name == "ramfs"', "insmod ramfs; rmmod ramfs", "ramfs")):
            self.define(text, file=f"events/{event}/filter")
            events = self.trace(command, event)
            self.assertNotEqual(events, [], text)
            self.assertEqual([e.text for e in events if kept not in e.text], [], text)
            self.define("!(" + text + ")", file=f"events/{event}/filter")
            self.assertEqual([e.text for e in self.trace(command, event) if kept in e.text], [])
            self.define("0", file=f"events/{event}/filter")
        self.define('reason == "nothing"', file="events/ipi/ipi_entry/filter")
        self.assertEqual(self.trace(WORKLOAD, "ipi/ipi_entry"), [])

    def test_what_a_filter_may_not_be(self) -> None:
        file = "events/sched/sched_switch/filter"
        self.define("prev_pid > 3", file=file)
        for text, mark, why in (("prev == 1", 0, "Field not found"),
                                ("pid == 1", 0, "Field not found"),
                                ("__probe_ip == 1", 0, "Field not found"),
                                ("prev_pid ~ 1", 9, "Illegal operation for field type"),
                                ("prev_comm > 1", 10, "Illegal operation for field type"),
                                ("prev_comm", 9, "Invalid operator"), ("", 0, "")):
            self.refused(text, "EINVAL", file=file)
            if text:
                self.logged(text, mark, why, "event filter parse error")
            self.sh("echo > error_log")
            self.assertEqual(self.sh(f"cat {file}"), "prev_pid > 3\n")

    def test_what_enable_may_not_be(self) -> None:
        for file in ("events/enable", "events/kmem/enable", "events/kmem/kfree/enable"):
            for text in ("", "2", "-1", "on", "1 1", "99999999999999999999"):
                self.assertRegex(self.sh(f"echo {text} > {file}"), r"\(E(INVAL|RANGE)\)$", text)
                self.assertEqual(self.sh(f"cat {file}"), "0\n", text)
        for text in ("kmem:nosuch", "nosuch:kfree", "kfree:kmem"):
            self.refused(text, "EINVAL", file="set_event")
        self.assertEqual(self.sh("cat set_event"), "")

    def test_names_of_static_events_are_taken(self) -> None:
        self.refused("p:kmem/kfree file_open", "EEXIST")
        self.logged("p:kmem/kfree file_open", 0,
                    "Given group/event name is already used by another event")
        self.define("p:kmem/mine file_open")
        self.assertEqual(self.sh("ls events/kmem"), "enable\nfilter\nkfree/\nkmalloc/\nmine/\n")
        self.define("-:kmem/mine")
        self.refused("-:kmem/kfree", "ENOENT")
        self.assertEqual(self.sh("ls events/kmem"), "enable\nfilter\nkfree/\nkmalloc/\n")

    def test_groups_and_set_event(self) -> None:
        self.define("kmem:*", "module_load", file="set_event")
        self.assertEqual(
            self.sh("cat set_event events/kmem/enable events/module/enable events/enable"),
            "kmem:kmalloc\nkmem:kfree\nmodule:module_load\n1\nX\nX\n")
        self.define("!kmem:kfree", file="set_event")
        self.assertEqual(self.sh("cat events/kmem/enable"), "X\n")
        self.assertEqual(self.sh("echo > set_event; cat set_event events/enable"), "0\n")

    def filters(self, there: str, *events: str) -> list[str]:
        return [self.sh(f"cat {there}events/{event}/filter")[:-1] for event in events]

    def test_the_filter_of_a_group(self) -> None:
        """Every event of the group that has the fields gets it; the others keep theirs."""
        events = ("kmem/kmalloc", "kmem/kfree", "module/module_load")
        self.sh("mkdir instances/a")
        self.define("ptr == 1", file="events/kmem/filter")
        self.assertEqual(self.filters("", *events), ["ptr == 1", "ptr == 1", "none"])
        self.assertEqual(self.filters("instances/a/", *events), ["none"] * 3)
        self.assertEqual(self.sh("cat error_log"), "")
        self.assertEqual(len(self.trace("ls", "kmem")), 0, "it is applied")
        self.define("bytes_req > 5", file="events/kmem/filter")
        self.assertEqual(self.filters("", *events), ["bytes_req > 5", "ptr == 1", "none"])
        self.logged("bytes_req > 5", 0, "Couldn't find or set field in one of a subsystem's events",
                    "event filter parse error")
        self.define("ptr == 2", file="instances/a/events/kmem/filter")
        self.assertEqual(self.filters("instances/a/", *events), ["ptr == 2", "ptr == 2", "none"])
        for text in ("nosuch == 1", "ptr ==", "ptr"):
            self.refused(text, "EINVAL", file="events/kmem/filter")
            self.logged(text, 0, "Couldn't find or set field in one of a subsystem's events",
                        "event filter parse error")
        self.assertEqual(self.filters("", *events), ["bytes_req > 5", "ptr == 1", "none"])
        self.assertRegex(self.sh("cat events/kmem/filter"), r"^### global filter ###\n(# .+\n){3}$")
        self.define("0", file="events/kmem/filter")
        self.assertEqual(self.filters("", *events), ["none"] * 3)
        self.assertGreater(len(self.trace("ls", "kmem")), 0)
        self.assertEqual(self.filters("instances/a/", *events), ["ptr == 2", "ptr == 2", "none"])

    def test_the_directory_of_a_group_goes_with_its_last_event(self) -> None:
        self.define("p:mine/one file_open", "p:mine/two file_open")
        self.define("common_pid == 1", file="events/mine/filter")
        self.assertEqual(self.filters("", "mine/one", "mine/two"), ["common_pid == 1"] * 2)
        self.define("-:mine/one")
        self.assertEqual(self.sh("ls events/mine"), "enable\nfilter\ntwo/\n")
        self.define("-:mine/two")
        self.assertIn("ENOENT", self.sh("ls events/mine"))

    def test_the_texts_to_which_events_point(self) -> None:
        lines = self.sh("cat printk_formats").splitlines()
        self.assertEqual([line.split(" : ")[1] for line in lines],
                         ['"Rescheduling interrupts"', '"Function call interrupts"'])
        for line in lines:
            address, text = line.split(" : ")
            self.define(f"p:say file_open text=@{address}:string")
            self.assertIn(f"text={text}", self.events("cat README")[0])
            self.define("-:say")

    def test_each_instance_enables_for_itself(self) -> None:
        self.sh("mkdir instances/a; mkdir instances/b")
        self.define("1", file="instances/a/events/module/enable")
        self.define("1", file="events/module/module_free/enable")
        self.define('name == "stone"', file="instances/a/events/module/module_load/filter")
        self.sh("insmod ramfs; rmmod ramfs; insmod stone; rmmod stone")
        texts = [[(e[5], e[6]) for e in LINE.findall(self.sh(f"cat {there}trace"))]
                 for there in ("", "instances/a/", "instances/b/")]
        free = [("module_free", "ramfs"), ("module_free", "stone")]
        self.assertEqual(texts, [free, [free[0], ("module_load", "stone"), free[1]], []])
        self.assertEqual(self.sh("rmdir instances/a"), "")
        self.assertEqual(self.sh("echo > trace; insmod ramfs; rmmod ramfs") +
                         str(len(LINE.findall(self.sh("cat trace")))), "1")

    def test_triggers(self) -> None:
        trigger = "events/module/module_load/trigger"
        kfree = "events/kmem/kfree/enable"
        for text in ("enable_event:kmem:kfree:1", 'disable_event:kmem:kfree if name == "stone"',
                     "stacktrace:2", "traceon"):
            self.define(text, file=trigger)
        self.assertEqual(
            self.sh(f"cat {trigger}"), "traceon:unlimited\nstacktrace:count=2\n"
            'disable_event:kmem:kfree:unlimited if name == "stone"\n'
            "enable_event:kmem:kfree:count=1\n")
        self.assertEqual(self.sh(f"cat {kfree}"), "0*\n")
        self.assertEqual(self.sh("echo > trace; insmod ramfs; rmmod ramfs"), "")
        self.assertEqual(self.sh(f"cat {kfree}"), "1*\n")
        self.assertEqual(self.sh("insmod stone; rmmod stone"), "")
        self.assertEqual(self.sh(f"cat {kfree}"), "0*\n")
        self.assertEqual(self.sh("insmod ramfs; rmmod ramfs"), "")
        text = self.sh("cat trace")
        self.assertEqual(self.sh(f"cat {kfree}"), "0*\n", "the count of enable_event is used up")
        self.assertIn("kfree: ", text)
        self.assertEqual(text.count("<stack trace>"), 2)
        self.assertRegex(text, r"<stack trace>\n => (publish|load|module_load)\n")
        for text in ("!enable_event:kmem:kfree", "!disable_event:kmem:kfree", "!stacktrace",
                     "!traceon"):
            self.define(text, file=trigger)
        self.assertEqual(self.sh(f"cat {kfree}"), "0\n")
        self.assertIn("# Available triggers:\n", self.sh(f"cat {trigger}"))

    def test_what_a_trigger_may_not_be(self) -> None:
        trigger = "events/kmem/kfree/trigger"
        self.define("traceoff:3 if ptr == 1", file=trigger)
        for text, mark, why in (
                ("hist:keys=ptr", 0, "hist triggers are not part of this kernel"),
                ("snapshot:x", 9, "Invalid count"),
                ("nosuch:3", 0, "There is no such trigger"),
                ("stacktrace:-1", 11, "Invalid count"), ("stacktrace:x", 11, "Invalid count"),
                ("stacktrace:", 11, "Invalid count"),
                ("stacktrace:99999999999", 11, "Invalid count"),
                ("stacktrace now", 11, "Only a filter can follow, after if"),
                ("stacktrace if", 11, "Only a filter can follow, after if"),
                ("enable_event", 0, "SYSTEM:EVENT is missing"),
                ("enable_event:kmem", 0, "SYSTEM:EVENT is missing"),
                ("enable_event:kmem:nosuch", 13, "There is no such event"),
                ("disable_event:kmem:kfree:x", 25, "Invalid count")):
            self.refused(text, "EINVAL", file=trigger)
            self.logged(text, mark, why, "event trigger parse error")
        self.refused("stacktrace if nosuch == 1", "EINVAL", file=trigger)
        self.logged("nosuch == 1", 0, "Field not found", "event filter parse error")
        self.refused("traceoff", "EEXIST", file=trigger)
        self.refused("!stacktrace", "ENOENT", file=trigger)
        self.refused("!enable_event:kmem:kmalloc", "ENOENT", file=trigger)
        self.assertEqual(self.sh(f"cat {trigger}"), "traceoff:count=3 if ptr == 1\n")
        self.define("stacktrace:0", file=trigger)
        self.trace("cat /etc/nosuch", "kmem/kfree")
        self.define("!stacktrace", "!traceoff", file=trigger)

    def test_a_target_stays_as_it_was_written(self) -> None:
        """The last trigger of an event gone, it is enabled as `enable` was last written."""
        trigger, kfree = "events/module/module_load/trigger", "events/kmem/kfree/enable"
        for chosen, at_load in (("0", "enable_event"), ("1", "disable_event")):
            self.define(f"{at_load}:kmem:kfree", file=trigger)
            self.define(chosen, file=kfree)
            self.assertEqual(self.sh("insmod ramfs; rmmod ramfs"), "")
            self.assertEqual(self.sh(f"cat {kfree}"), f"{1 - int(chosen)}*\n")
            self.define(f"!{at_load}:kmem:kfree", file=trigger)
            self.assertEqual(self.sh(f"cat {kfree}"), f"{chosen}\n")

    def test_a_stack_of_each_context(self) -> None:
        """Of a thread, an interrupt, the scheduler, and of probes."""
        self.define("p:mine/body file_open+16", "p:mine/entry file_open", "r:mine/ret file_open",
                    "f:mine/f file_open")
        for event, first in (("kmem/kmalloc", "kmalloc"), ("irq/irq_handler_entry", "handle_irq"),
                             ("sched/sched_switch", "__schedule"), ("mine/body", "file_open"),
                             ("mine/entry", "file_open"), ("mine/f", "file_open")):
            self.define("stacktrace", file=f"events/{event}/trigger")
            self.sh(f"echo > trace; echo 1 > events/{event}/enable; cat /etc/nosuch; "
                    f"echo 0 > events/{event}/enable")
            self.define("!stacktrace", file=f"events/{event}/trigger")
            text = self.sh("cat trace")
            stacks = re.findall(r"<stack trace>\n((?: => .*\n)+)", text)
            self.assertNotEqual(stacks, [], event)
            for stack in stacks:
                self.assertRegex(
                    stack, r"\A(?: => trap_exception\n => exception_vector\n)?"
                    rf" => {first}\n(?: => .*\n)* => "
                    r"(thread_start(_asm)?|\w*idle|\w+_main)\n\Z", event)


class Riscv64(OnStaticEvents, unittest.TestCase):
    arch, cpus = "riscv64", 1


class Arm64(OnStaticEvents, unittest.TestCase):
    arch, cpus = "arm64", 1


class Riscv64Four(OnStaticEvents, unittest.TestCase):
    arch, cpus = "riscv64", 4


class Arm64Four(OnStaticEvents, unittest.TestCase):
    arch, cpus = "arm64", 4


if __name__ == "__main__":
    unittest.main()
