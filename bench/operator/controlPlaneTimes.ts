import { readdirSync, readFileSync } from 'node:fs';
import { cpuMicroseconds } from '../proxy/processTimes.ts';

/** Processor time of the control plane that this process has started, in seconds since each process began. */
export interface ControlPlaneTimes {
  readonly apiServer: number;
  readonly etcd: number;
}

/** Reads the times of now. */
export function controlPlaneTimes(): ControlPlaneTimes {
  return { apiServer: secondsOf('kube-apiserver'), etcd: secondsOf('etcd') };
}

function secondsOf(program: string): number {
  const children = readdirSync('/proc').filter((entry) => /^\d+$/.test(entry) && isChild(entry, program));
  return children.reduce((sum, pid) => sum + cpuMicroseconds(Number(pid)) / 1_000_000, 0);
}

function isChild(pid: string, program: string): boolean {
  try {
    const status = readFileSync(`/proc/${pid}/status`, 'utf8');
    // The kernel keeps 15 characters of a name.
    return /^Name:\t(.*)$/m.exec(status)?.[1] === program.slice(0, 15) && status.includes(`\nPPid:\t${process.pid}\n`);
  } catch {
    // It has ended since.
    return false;
  }
}
