import { globSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { parseAllDocuments } from 'yaml';
import { startEngine } from './engine.ts';
import { type Program, startProgram } from './program.ts';
import { isObject } from './scrub.ts';

/** Records the names that users rely on: keys, metrics and labels, alerts, environment variables, columns, fields of CRDs. */
export async function recordInventories(program: Program): Promise<Record<string, unknown>> {
  return {
    keys: configurationKeys(program),
    alerts: alerts(program),
    environment: environmentVariables(program),
    fields: crdFields(program),
    ...(await runningInventories(program)),
  };
}

/** Configuration keys with their types and defaults, from the page that is generated from the schema. */
function configurationKeys({ root }: Program): Record<string, unknown> {
  const page = readFileSync(join(root, 'docs/configuration.md'), 'utf8');
  const rows = [...page.matchAll(/^\| `([^`]+)` \| ([^|]+) \| ([^|]+) \|/gm)];
  return Object.fromEntries(
    rows.map(([, key = '', type = '', preset = '']) => [key, { type: type.trim(), default: preset.trim() }]),
  );
}

function alerts({ root }: Program): Record<string, unknown> {
  const found: Record<string, unknown> = {};
  for (const file of globSync('manifests/**/*.{yaml,yml,json}', { cwd: root })) {
    const text = readFileSync(join(root, file), 'utf8');
    for (const [, name = ''] of text.matchAll(/^\s*-? ?"?alert"?: "?(\w+)/gm)) found[name] = true;
  }
  return found;
}

function environmentVariables({ root }: Program): Record<string, unknown> {
  const found: Record<string, unknown> = {};
  const exclude = ['docs/removed.md'];
  for (const file of globSync('{src,scripts,manifests,docs}/**/*.{ts,md,yaml,tpl}', { cwd: root, exclude })) {
    for (const [name] of readFileSync(join(root, file), 'utf8').matchAll(/\bEG_[A-Z_]+\b/g)) found[name] = true;
  }
  return found;
}

/** Paths of the fields of every CRD, with their types. */
function crdFields({ root }: Program): Record<string, unknown> {
  const fields: Record<string, unknown> = {};
  const walk = (schema: unknown, path: string): void => {
    if (!isObject(schema)) return;
    if (typeof schema.type === 'string') fields[path] = schema.type;
    if (isObject(schema.properties)) {
      for (const [name, member] of Object.entries(schema.properties)) walk(member, `${path}.${name}`);
    }
    walk(schema.items, `${path}[]`);
    walk(schema.additionalProperties, `${path}{}`);
  };
  for (const file of globSync('crds/*.yaml', { cwd: root })) {
    for (const document of parseAllDocuments(readFileSync(join(root, file), 'utf8'))) {
      const crd = document.toJS() as {
        spec: { names: { kind: string }; versions: { schema: { openAPIV3Schema: unknown } }[] };
      };
      for (const { schema } of crd.spec.versions) walk(schema.openAPIV3Schema, crd.spec.names.kind);
    }
  }
  return fields;
}

/** Metrics with their types and labels, tables with their columns: of a gateway that served queries. */
async function runningInventories(program: Program): Promise<Record<string, unknown>> {
  const folder = mkdtempSync(join(tmpdir(), 'baseline-inventory-'));
  const file = join(folder, 'gateway.db');
  const engine = await startEngine();
  const gateway = await startProgram(program, {
    dataStore: { jdbcUrl: `jdbc:sqlite:${file}` },
    authentication: 'none',
  });
  try {
    // Without a cluster it is rejected, which has a metric with labels.
    await submit(gateway.url);
    const json = { 'content-type': 'application/json' };
    const add = { name: 'a', proxyTo: engine.url, active: true, routingGroup: 'adhoc' };
    await fetch(`${gateway.url}/gateway/backend/modify/add`, {
      method: 'POST',
      headers: json,
      body: JSON.stringify(add),
    });
    await untilServed(gateway.url);
    const metrics = await (await fetch(`${gateway.url}/metrics`)).text();
    return { metrics: metricsOf(metrics), columns: columnsOf(file) };
  } finally {
    await gateway.stop();
    await engine.stop();
    rmSync(folder, { recursive: true });
  }
}

function submit(url: string): Promise<Response> {
  return fetch(`${url}/v1/statement`, { method: 'POST', body: 'SELECT 1', headers: { 'X-Engine-User': 'u' } });
}

/** Submits queries until one is served whole. */
async function untilServed(url: string): Promise<void> {
  for (let attempt = 0; attempt < 300; attempt++) {
    const response = await submit(url);
    let page = (await response.json().catch(() => ({}))) as { error?: unknown; nextUri?: string };
    while (page.nextUri !== undefined) page = (await (await fetch(page.nextUri)).json()) as typeof page;
    if (response.ok && page.error === undefined) return;
    await new Promise((done) => setTimeout(done, 100));
  }
  throw new Error('no query was served');
}

function metricsOf(text: string): Record<string, unknown> {
  const metrics: Record<string, { type: string; labels: Record<string, true> }> = {};
  for (const [, name = '', type = ''] of text.matchAll(/^# TYPE (?!nodejs_|process_)(\S+) (\S+)$/gm))
    metrics[name] = { type, labels: {} };
  for (const [, sample = '', labels = ''] of text.matchAll(/^([a-zA-Z_:]+)\{([^\n]*)\} \S+$/gm)) {
    const metric = metrics[sample] ?? metrics[sample.replace(/_(?:bucket|sum|count)$/, '')];
    for (const [, label = ''] of labels.matchAll(/(\w+)="/g)) if (metric !== undefined) metric.labels[label] = true;
  }
  return metrics;
}

function columnsOf(file: string): Record<string, unknown> {
  const database = new DatabaseSync(file, { readOnly: true });
  try {
    const tables = database.prepare("select name from sqlite_master where type = 'table'").all() as { name: string }[];
    return Object.fromEntries(
      tables
        .filter(({ name }) => !name.startsWith('sqlite_'))
        .map(({ name }) => {
          const columns = database.prepare(`select name, type from pragma_table_info(?)`).all(name) as {
            name: string;
            type: string;
          }[];
          return [name, Object.fromEntries(columns.map((column) => [column.name, column.type]))];
        }),
    );
  } finally {
    database.close();
  }
}
