import { measureOn } from './processors.ts';
import { cpuMicroseconds, residentMegabytes } from './processTimes.ts';
import { wrk } from './wrk.ts';

/** Figures of one load. */
export interface Measured {
  /** Microseconds of processor time a request, of the whole process. */
  readonly cpu: number;
  readonly perSecond: number;
  /** Milliseconds. */
  readonly p50: number;
  readonly p99: number;
  /** MB. */
  readonly resident: number;
  readonly failed: number;
  readonly requests: number;
}

/** A proxy that is measured. */
export interface Target {
  readonly url: string;
  readonly workerPid: number;
  /** Waits for work that a load leaves behind: it is part of its cost. */
  readonly settle?: () => Promise<void>;
}

/** Before a program is measured it learns addresses, and the compiler its hot paths: some 50,000 requests. */
export const WARM_UP_SECONDS = 10;

/** Puts a load on a proxy. @param script of wrk; null for plain GETs */
export async function measure(
  target: Target,
  requestPath: string,
  seconds: number,
  script: string | null,
): Promise<Measured> {
  measureOn(target.workerPid);
  const before = cpuMicroseconds(target.workerPid);
  const result = await wrk(target.url + requestPath, seconds, script);
  await target.settle?.();
  const cpu = (cpuMicroseconds(target.workerPid) - before) / result.requests;
  return { ...result, cpu, resident: residentMegabytes(target.workerPid) };
}

/** Prints the table's head. */
export function printHead(): void {
  console.log('load        proxy               CPU µs/req  req/s    p50 ms  p99 ms  RSS MB  failed');
}

/** Prints a line of the table. */
export function print(load: string, proxy: string, measured: Measured): void {
  const cells = [
    load.padEnd(11),
    proxy.padEnd(19),
    measured.cpu.toFixed(1).padStart(10),
    measured.perSecond.toFixed(0).padStart(7),
    measured.p50.toFixed(2).padStart(8),
    measured.p99.toFixed(2).padStart(7),
    measured.resident.toFixed(0).padStart(7),
    String(measured.failed).padStart(7),
  ];
  console.log(cells.join(' '));
}
