import { readdirSync } from 'node:fs';
import { request } from 'node:http';
import { join } from 'node:path';
import { residentMegabytes } from '../../bench/proxy/processTimes.ts';
import { median } from '../../bench/statistics.ts';
import type { ProbeResponse } from './probe.ts';

/** What is watched, and what it may move without being a trend: the resolution of what is measured. */
const watched = {
  'memory held (MB)': 1,
  'resident memory (MB)': 4,
  'open files': 4,
  'event-loop delay (ms)': 0.5,
} as const;
type Figure = keyof typeof watched;

/** Growth from the second to the last quarter that is still flat. */
const FLAT = 0.1;
const PROBE_TIMEOUT_MS = 20_000;

/**
 * A replica's event loop is delayed by a machine that becomes slower up to this many times as much as the reference
 * process's, whose pieces of work are all alike and short (measured with others taking both processors: 2.3 to 5).
 */
const MACHINE_WEIGHT = 5;

/** A series of figures of one process. */
export class Series {
  readonly name: string;
  readonly #pid: number;
  readonly #folder: string;
  readonly #values = new Map<Figure, number[]>(Object.keys(watched).map((figure) => [figure as Figure, []]));
  #worstDelay = 0;

  /** @param folder holds the sockets of the probes */
  constructor(name: string, pid: number, folder: string) {
    this.name = name;
    this.#pid = pid;
    this.#folder = folder;
  }

  /** Begins the first sample's time. */
  async start(): Promise<void> {
    await askProbe(this.#folder, this.#pid);
  }

  /** Takes a sample of the time since the last one. */
  async sample(): Promise<void> {
    const answer = await askProbe(this.#folder, this.#pid);
    this.#add('memory held (MB)', answer.heldMegabytes);
    this.#add('resident memory (MB)', residentMegabytes(this.#pid));
    this.#add('open files', readdirSync(`/proc/${this.#pid}/fd`).length);
    this.#add('event-loop delay (ms)', answer.delayMean);
    this.#worstDelay = Math.max(this.#worstDelay, answer.delayP99);
  }

  /** Lines to print. */
  get table(): readonly string[] {
    const rows = [...this.#values].map(([figure, values]) => {
      const medians = quarters(values).map((quarter) => median(quarter).toFixed(1).padStart(8));
      return `${figure.padEnd(24)}${medians.join('')}`;
    });
    const worst = `worst 99th percentile of the delay in one sample: ${this.#worstDelay.toFixed(1)} ms`;
    return [`${this.name}: medians of the quarters`, ...rows, worst];
  }

  /**
   * Figures that grew by more than the machine explains.
   * @param reference the process whose event loop only the machine delays
   */
  growing(reference: Series): readonly string[] {
    return [...this.#values.keys()].flatMap((figure) => {
      const { from, to } = this.#trend(figure);
      const machine = figure === 'event-loop delay (ms)' ? reference.#trend(figure) : { from: 0, to: 0 };
      const allowed = Math.max(from * FLAT, watched[figure]) + MACHINE_WEIGHT * Math.max(0, machine.to - machine.from);
      return to - from <= allowed
        ? []
        : [
            `${this.name}: ${figure} grew from ${from.toFixed(1)} to ${to.toFixed(1)}, by more than ${allowed.toFixed(1)}`,
          ];
    });
  }

  /** Medians of the second and the last quarter. */
  #trend(figure: Figure): { readonly from: number; readonly to: number } {
    const [, second = [], , last = []] = quarters(this.#values.get(figure) ?? []);
    return { from: median(second), to: median(last) };
  }

  #add(figure: Figure, value: number): void {
    this.#values.get(figure)?.push(value);
  }
}

function quarters(values: readonly number[]): readonly (readonly number[])[] {
  const at = (quarter: number) => Math.round((values.length * quarter) / 4);
  return [0, 1, 2, 3].map((quarter) => values.slice(at(quarter), at(quarter + 1)));
}

function askProbe(folder: string, pid: number): Promise<ProbeResponse> {
  return new Promise((resolve, reject) => {
    const asked = request({ socketPath: join(folder, `${pid}.sock`), timeout: PROBE_TIMEOUT_MS }, (response) => {
      let text = '';
      response.setEncoding('utf8');
      response.on('data', (part: string) => {
        text += part;
      });
      response.on('error', reject);
      response.on('end', () => resolve(JSON.parse(text) as ProbeResponse));
    });
    asked.on('timeout', () => asked.destroy(new Error('the probe does not answer')));
    asked.on('error', reject);
    asked.end();
  });
}
