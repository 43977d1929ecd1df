import { spawnSync } from 'node:child_process';
import { mkdirSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { parse } from 'yaml';

const project = resolve(import.meta.dirname, '../..');
const units: Readonly<Record<string, number>> = { Ki: 1024, Mi: 1024 ** 2, Gi: 1024 ** 3 };

/** The part of a Deployment that limits the memory. */
interface Deployment {
  readonly spec: {
    readonly template: {
      readonly spec: {
        readonly containers: readonly { readonly resources: { readonly limits: { readonly memory: string } } }[];
      };
    };
  };
}

/** The memory limit of the gateway's container in `manifests/base/deployment.yaml`, bytes. */
export async function manifestMemoryLimit(): Promise<number> {
  const text = await readFile(join(project, 'manifests/base/deployment.yaml'), 'utf8');
  const memory = (parse(text) as Deployment).spec.template.spec.containers[0]?.resources.limits.memory ?? '';
  const [, amount, unit = ''] = /^(\d+)(Ki|Mi|Gi)$/.exec(memory) ?? [];
  if (amount === undefined) throw new Error(`manifests/base/deployment.yaml: resources.limits.memory is '${memory}'`);
  return Number(amount) * (units[unit] ?? 1);
}

/** What keeps a process under a memory limit, or finds out that it was not. */
export interface MemoryLimit {
  /** Command and arguments to put before those of the process that is limited. */
  readonly command: readonly string[];
  /** Watches the process that was started by the command. */
  watch(pid: number): void;
  /** @throws with the figures when the process was over the limit at any time */
  check(): void;
  /** Removes what it needed; to be called when the process has ended. */
  dispose(): void;
}

/**
 * Limits a process by a cgroup, where one can be made; elsewhere by a look at its peak (`VmHWM`).
 * @param bytes the limit
 */
export function limitMemory(bytes: number): MemoryLimit {
  const group = cgroup2(bytes) ?? cgroup1(bytes);
  return group === null ? limitByPeak(bytes) : limitByGroup(bytes, group);
}

/** Time between two looks at the peak, which only grows: the last look may be before the end by that much. */
const LOOK_MS = 250;

function limitByPeak(bytes: number): MemoryLimit {
  let peak = 0;
  let timer: NodeJS.Timeout | undefined;
  let look = (): void => undefined;
  return {
    command: [],
    watch(pid) {
      look = () => {
        peak = Math.max(peak, peakBytes(pid));
      };
      timer = setInterval(look, LOOK_MS).unref();
    },
    check() {
      look();
      if (peak > bytes) throw new Error(`peak of resident memory ${megabytes(peak)}, limit ${megabytes(bytes)}`);
    },
    dispose: () => clearInterval(timer),
  };
}

/** A cgroup with a limit. */
interface Group {
  readonly folder: string;
  /** File with a line `oom_kill N`. */
  readonly eventsFile: string;
  /** File with the highest use, bytes. */
  readonly peakFile: string;
}

function limitByGroup(bytes: number, { folder, eventsFile, peakFile }: Group): MemoryLimit {
  return {
    command: commandIn(folder),
    watch: () => undefined,
    check() {
      const kills = Number(/^oom_kill (\d+)/m.exec(readFileSync(join(folder, eventsFile), 'utf8'))?.[1]);
      if (kills === 0) return;
      const peak = Number(readFileSync(join(folder, peakFile), 'utf8'));
      throw new Error(`killed by the kernel: its memory reached ${megabytes(peak)} of ${megabytes(bytes)}`);
    },
    dispose() {
      try {
        rmdirSync(folder);
      } catch {
        // A process that is being killed is still in it; an empty group that stays harms nobody.
      }
    },
  };
}

/** The shell enters the group, then becomes the program: the process id stays. */
function commandIn(folder: string): readonly string[] {
  return ['sh', '-c', `echo $$ > '${join(folder, 'cgroup.procs')}' && exec "$@"`, 'sh'];
}

let groups = 0;

/** A group of its own below a folder of cgroups; null where none can be made or entered. */
function makeGroup(parent: string, limits: Readonly<Record<string, number>>): string | null {
  groups += 1;
  const folder = join(parent, `engine-gateway-abuse-${process.pid}-${groups}`);
  try {
    mkdirSync(folder);
  } catch {
    return null;
  }
  try {
    for (const [file, value] of Object.entries(limits))
      writeFileSync(join(folder, file), String(value), { flag: 'r+' });
    const [command = '', ...args] = commandIn(folder);
    if (spawnSync(command, [...args, 'true']).status === 0) return folder;
  } catch {
    // No memory controller here, or none that may be set.
  }
  rmdirSync(folder);
  return null;
}

function cgroup2(bytes: number): Group | null {
  const folder = makeGroup('/sys/fs/cgroup', { 'memory.max': bytes, 'memory.swap.max': 0 });
  return folder === null ? null : { folder, eventsFile: 'memory.events', peakFile: 'memory.peak' };
}

function cgroup1(bytes: number): Group | null {
  const folder = makeGroup('/sys/fs/cgroup/memory', { 'memory.limit_in_bytes': bytes, 'memory.swappiness': 0 });
  return folder === null ? null : { folder, eventsFile: 'memory.oom_control', peakFile: 'memory.max_usage_in_bytes' };
}

/** 0 when the process has ended. */
function peakBytes(pid: number): number {
  try {
    return 1024 * Number(/^VmHWM:\s+(\d+) kB/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1] ?? 0);
  } catch {
    return 0;
  }
}

function megabytes(bytes: number): string {
  return `${Math.round(bytes / 1024 ** 2)} MiB`;
}
