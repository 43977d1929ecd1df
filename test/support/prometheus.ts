import { readFileSync } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parse, stringify } from 'yaml';
import { requireComponent } from './components.ts';
import { freePort } from './freePort.ts';
import { folderOf, runProgram, ServerProcess } from './serverProcess.ts';

const folder = folderOf(['prometheus', 'promtool'], []);

/** Whether Prometheus is installed; throws with CI=true when it is not. */
export const hasPrometheus = (): boolean =>
  requireComponent('Prometheus', folder !== null, 'install the package prometheus');

/** Content of a rule file of Prometheus. */
export interface AlertRules {
  readonly groups: readonly {
    readonly rules: readonly {
      readonly alert: string;
      readonly expr: string;
      readonly for: string;
      readonly labels: Readonly<Record<string, string>>;
      readonly annotations: Readonly<Record<string, string>>;
    }[];
  }[];
}

const prometheusRule = parse(readFileSync('manifests/helm/engine-gateway/monitoring/prometheusrule.yaml', 'utf8')) as {
  readonly spec: AlertRules;
};
/** The alerts that ship. */
export const shippedAlerts = prometheusRule.spec;

/** A sample of an instant query. */
export interface Sample {
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
}

/** A Prometheus that scrapes gateways every second and evaluates the alerts that ship. */
export interface Prometheus {
  /** Samples of an expression now. @throws with its error when Prometheus refuses it */
  query(expr: string): Promise<readonly Sample[]>;
  /** Names of the alerts whose expression has been true at any time, though perhaps not for long enough to fire. */
  raised(): Promise<readonly string[]>;
  /** Names of the alerts that have fired at any time, with the labels of each. */
  fired(): Promise<readonly Sample[]>;
  stop(): Promise<void>;
}

/** Runs promtool to its end. @throws with its output when it fails */
export async function promtool(...args: readonly string[]): Promise<void> {
  await runProgram(join(folder ?? '', 'promtool'), args);
}

/** Starts a Prometheus that scrapes these addresses of gateways; resolves when it answers. */
export async function startPrometheus(targets: readonly string[]): Promise<Prometheus> {
  const directory = await mkdtemp(join(tmpdir(), 'prometheus-'));
  const port = await freePort();
  const config = {
    global: { scrape_interval: '1s', scrape_timeout: '1s', evaluation_interval: '1s' },
    rule_files: ['alerts.yaml'],
    scrape_configs: [
      { job_name: 'engine-gateway', static_configs: [{ targets: targets.map((target) => new URL(target).host) }] },
    ],
  };
  const file = join(directory, 'prometheus.yaml');
  await writeFile(file, stringify(config));
  await writeFile(join(directory, 'alerts.yaml'), stringify(shippedAlerts));
  const server = new ServerProcess(
    join(folder ?? '', 'prometheus'),
    [
      `--config.file=${file}`,
      `--storage.tsdb.path=${join(directory, 'data')}`,
      `--web.listen-address=127.0.0.1:${port}`,
      '--log.level=warn',
    ],
    null,
  );
  const base = `http://127.0.0.1:${port}`;
  await server.start(async () => {
    const { ok, status } = await fetch(`${base}/-/ready`, { signal: AbortSignal.timeout(5_000) });
    if (!ok) throw new Error(`not ready: ${status}`);
  });
  const query = async (expr: string): Promise<readonly Sample[]> => {
    const response = await fetch(`${base}/api/v1/query`, {
      method: 'POST',
      body: new URLSearchParams({ query: expr }),
      signal: AbortSignal.timeout(30_000),
    });
    const answer = (await response.json()) as Answer;
    if (answer.status !== 'success') throw new Error(`${expr}: ${answer.error}`);
    return answer.data.result.map(({ metric, value }) => ({ labels: metric, value: Number(value[1]) }));
  };
  return {
    query,
    raised: async () => {
      const samples = await query('count by (alertname) (max_over_time(ALERTS[2h]))');
      return samples.map(({ labels }) => labels.alertname ?? '');
    },
    fired: () => query('max_over_time(ALERTS{alertstate="firing"}[2h])'),
    stop: async () => {
      await server.stop('SIGTERM');
      await rm(directory, { recursive: true, force: true });
    },
  };
}

/** An answer of Prometheus' HTTP API to an instant query. */
interface Answer {
  readonly status: 'success' | 'error';
  readonly error?: string;
  readonly data: {
    readonly result: readonly {
      readonly metric: Readonly<Record<string, string>>;
      readonly value: readonly [time: number, value: string];
    }[];
  };
}
