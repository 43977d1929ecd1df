import { productNames } from '../src/model/names.ts';
import { createRuleCompiler } from '../src/rules/compiler.ts';
import type { RuleRequest } from '../src/rules/decision.ts';
import { escapeAttempts } from '../test/support/escapeAttempts.ts';
import { attempt } from '../test/support/ruleAttempt.ts';

const names = productNames('Engine');

/** Ten rules of the kind that gateways have: on headers, user and tables. */
export const typicalRules: readonly (readonly [condition: string, group: string])[] = [
  ['request.getHeader("X-Engine-Source") == "airflow"', 'etl'],
  ['request.getHeader("X-Engine-Source") == "superset" || request.getHeader("X-Engine-Source") == "tableau"', 'bi'],
  ['request.getHeader("X-Engine-Client-Tags") contains "label=special"', 'special'],
  ['request.getHeader("X-Engine-Source") != null && request.getHeader("X-Engine-Source").startsWith("dbt-")', 'dbt'],
  ['engineRequestUser.userExistsAndEquals("alice")', 'alice'],
  ['engineRequestUser.getUser().isPresent() && engineRequestUser.getUser().get().endsWith("@example.com")', 'staff'],
  ['engineQueryProperties.tablesContains("hive.web.events")', 'large'],
  ['engineQueryProperties.getCatalogs() contains "iceberg" && engineQueryProperties.getQueryType() == "Query"', 'lake'],
  ['engineQueryProperties.getQueryType() == "Insert"', 'writes'],
  ['request.getMethod() == "POST" && request.getHeader("X-Engine-Session") contains "query_max_run_time"', 'long'],
];

/** A thousand rules, three quarters on a header's value, the rest on users, tables and parts of headers. */
export function manyRules(count: number): (readonly [condition: string, group: string])[] {
  return Array.from({ length: count }, (_, index) => {
    switch (index % 8) {
      case 0:
        return [`engineRequestUser.userExistsAndEquals("user${index}")`, `g${index}`] as const;
      case 1:
        return [`request.getHeader("X-Engine-Client-Tags") contains "team=t${index}"`, `g${index}`] as const;
      case 2:
        return [`engineQueryProperties.tablesContains("hive.db${index}.events")`, `g${index}`] as const;
      default:
        return [`request.getHeader("X-Engine-Source") == "tool-${index}"`, `g${index}`] as const;
    }
  });
}

/** The text of a rules file. */
export function rulesFileOf(rules: readonly (readonly [condition: string, group: string])[]): string {
  return rules
    .map(([condition, group], index) =>
      [
        '---',
        `name: rule ${index}`,
        'description: a rule',
        `priority: ${index}`,
        `condition: '${condition}'`,
        'actions:',
        `  - 'result.put("routingGroup", "${group}")'`,
        '',
      ].join('\n'),
    )
    .join('');
}

function request(index: number): RuleRequest {
  return {
    method: 'POST',
    path: '/v1/statement',
    query: null,
    headers: [
      ...['Host', 'gateway.example:8080'],
      ...['User-Agent', 'engine-jdbc/476'],
      ...['X-Engine-User', `user${index % 50}`],
      ...['X-Engine-Source', index % 3 === 0 ? 'airflow' : `tool-${index % 900}`],
      ...['X-Engine-Catalog', 'hive'],
      ...['X-Engine-Schema', 'web'],
      ...['X-Engine-Client-Tags', 'team=etl,label=gold'],
      ...['Accept-Encoding', 'gzip'],
      ...['Content-Length', '120'],
      ...['Content-Type', 'text/plain;charset=utf-8'],
    ],
    scheme: 'http',
    serverName: 'gateway.example',
    serverPort: 8080,
    remoteAddr: '10.1.2.3',
    remoteUser: null,
    formBody: null,
    isSubmission: true,
    user: { user: `user${index % 50}`, userInfo: null },
    queryProperties: {
      errorMessage: null,
      isNewQuerySubmission: true,
      queryType: 'Query',
      resourceGroupQueryType: 'SELECT',
      defaultCatalog: 'hive',
      defaultSchema: 'web',
      tables: [
        ['hive', 'web', 'events'],
        ['hive', 'web', 'sessions'],
      ],
      catalogs: ['hive'],
      schemas: ['web'],
      catalogSchemas: ['hive.web'],
      body: 'SELECT count(*) FROM events e JOIN sessions s ON e.sid = s.id',
      queryId: null,
    },
  };
}

function compile(text: string): ReturnType<ReturnType<typeof createRuleCompiler>['compile']> {
  const compiler = createRuleCompiler({
    names,
    rulesEngineEnabled: true,
    rulesType: 'FILE',
    analyzeRequest: true,
    onRuleError: 'skip',
    onFileError: 'header',
    monotonic: () => performance.now(),
  });
  return compiler.compile([], { path: 'rules.yaml', text });
}

/** Microseconds of processor time a decision (another process on the machine does not count): the best of fifteen rounds, after warming up. */
function decisionTime(text: string, rounds: number): number {
  const compiled = compile(text);
  const { ruleSet } = compiled;
  if (ruleSet === null || compiled.fileProblems.length > 0) throw new Error(JSON.stringify(compiled.fileProblems[0]));
  // A new request object each time: nothing that it remembers may be used twice.
  const requests = Array.from({ length: 997 }, (_, index) => request(index));
  let sink = 0;
  const run = (): number => {
    const start = process.threadCpuUsage().user;
    for (let round = 0; round < rounds; round += 1) {
      const decision = ruleSet.decide(requests[round % requests.length] as RuleRequest);
      sink += decision.trace.rules.length;
    }
    return (process.threadCpuUsage().user - start) / rounds;
  };
  run();
  const best = Math.min(...Array.from({ length: 15 }, run));
  if (sink === 0) throw new Error('nothing was decided');
  return best;
}

/** Milliseconds of processor time to load a file's text into a rule set: the best of five. */
function loadTime(text: string): number {
  const times = Array.from({ length: 5 }, () => {
    const start = process.threadCpuUsage().user;
    compile(text);
    return (process.threadCpuUsage().user - start) / 1000;
  });
  return Math.min(...times);
}

function line(what: string, value: number, unit: string, limit: number): boolean {
  const isReached = value <= limit;
  console.log(
    `${what.padEnd(46)} ${value.toFixed(2).padStart(9)} ${unit.padEnd(3)} (at most ${limit}) ${isReached ? 'ok' : 'MISSED'}`,
  );
  return isReached;
}

/** `npm run bench -- rules`: decisions and loading on one thread, and the times of the escape attempts. */
export function run(): Promise<void> {
  const typical = decisionTime(rulesFileOf(typicalRules), 20_000);
  const thousandText = rulesFileOf(manyRules(1000));
  const thousand = decisionTime(thousandText, 2000);
  console.log(
    `10 typical rules: ${Math.round(1e6 / typical)} decisions a second; 1,000 rules: ${Math.round(1e6 / thousand)}`,
  );
  const results = [
    line('10 typical rules, a decision', typical, 'µs', 3),
    line('1,000 rules, a decision', thousand, 'µs', 150),
    line('1,000 rules, loading (after warming up)', loadTime(thousandText), 'ms', 150),
  ];
  const slowest = escapeAttempts
    .map(({ what, text }) => {
      const start = performance.now();
      attempt(text);
      return { what, time: performance.now() - start };
    })
    .sort((a, b) => b.time - a.time);
  console.log(`\n${escapeAttempts.length} escape attempts, all refused; the slowest:`);
  for (const { what, time } of slowest.slice(0, 10)) console.log(`  ${what.padEnd(60)} ${time.toFixed(2)} ms`);
  if (!results.every((isReached) => isReached)) process.exitCode = 1;
  return Promise.resolve();
}
