import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';

const ticksPerSecond = Number(execFileSync('getconf', ['CLK_TCK'], { encoding: 'utf8' }));

/** CPU time of a process and its children that live, in microseconds: servers with a process for each connection. */
export function cpuMicrosecondsOfFamily(pid: number): number {
  const children = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim();
  return [String(pid), ...(children === '' ? [] : children.split(' '))].reduce((sum, each) => {
    try {
      return sum + cpuMicroseconds(Number(each));
    } catch {
      // It ended meanwhile.
      return sum;
    }
  }, 0);
}

/** CPU time of a process, its children that live, and those that ended and that it waited for, in microseconds. */
export function cpuMicrosecondsOfPastFamily(pid: number): number {
  // cutime and cstime (proc(5): fields 16 and 17).
  const fields = fieldsOf(pid);
  return cpuMicrosecondsOfFamily(pid) + ((Number(fields[13]) + Number(fields[14])) * 1_000_000) / ticksPerSecond;
}

/** CPU time that all processes of the machine took, with the kernel's own, in microseconds (proc(5): idle and iowait apart). */
export function cpuMicrosecondsOfAll(): number {
  const [user, nice, system, , , irq, softirq] = (/^cpu +(.*)$/m.exec(readFileSync('/proc/stat', 'utf8'))?.[1] ?? '')
    .split(' ')
    .map(Number) as number[];
  const ticks = [user, nice, system, irq, softirq].reduce<number>((sum, each) => sum + (each ?? 0), 0);
  return (ticks * 1_000_000) / ticksPerSecond;
}

/** CPU time of a process with all its threads, user and system, in microseconds (proc(5): fields 14 and 15). */
export function cpuMicroseconds(pid: number): number {
  const fields = fieldsOf(pid);
  return ((Number(fields[11]) + Number(fields[12])) * 1_000_000) / ticksPerSecond;
}

/** CPU time of the first thread of a process, which runs the event loop, in microseconds. */
export function cpuMicrosecondsOfMainThread(pid: number): number {
  const fields = fieldsOf(`${pid}/task/${pid}`);
  return ((Number(fields[11]) + Number(fields[12])) * 1_000_000) / ticksPerSecond;
}

/** Fields of proc(5) from the third on. */
function fieldsOf(process: number | string): readonly string[] {
  const stat = readFileSync(`/proc/${process}/stat`, 'utf8');
  // The second field is the program's name in parentheses and may hold spaces.
  return stat.slice(stat.lastIndexOf(')') + 2).split(' ');
}

/** Resident memory of a process in MB. */
export function residentMegabytes(pid: number): number {
  const kilobytes = /^VmRSS:\s+(\d+) kB/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1];
  return Number(kilobytes ?? 0) / 1024;
}
