import { decisionText } from '../src/gateway/exchanges/queryRecorder.ts';
import { productNames } from '../src/model/names.ts';
import { createRuleCompiler } from '../src/rules/compiler.ts';
import type { RuleSet } from '../src/rules/decision.ts';
import { escapeAttempts } from '../test/support/escapeAttempts.ts';
import { attempt } from '../test/support/ruleAttempt.ts';
import { inputTimes } from './workload/inputTimes.ts';
import { inputModel, type SampleSubmission } from './workload/submissions.ts';

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

function ruleSetOf(text: string): RuleSet {
  const { ruleSet, fileProblems } = compile(text);
  if (ruleSet === null || fileProblems.length > 0) throw new Error(JSON.stringify(fileProblems[0]));
  return ruleSet;
}

/** Decides, and writes the decision as the history keeps it. */
function decideAndWrite(ruleSet: RuleSet): (submission: SampleSubmission) => string {
  return ({ ruleRequest }) => {
    const { routingGroup, rule, cluster, trace } = ruleSet.decide(ruleRequest);
    const decision = { group: routingGroup ?? 'adhoc', decidedBy: 'rule', rule, cluster, trace } as const;
    const way = { cluster: 'engine-a', fallback: false, steps: null, attempts: null };
    return decisionText({ ...decision, onUnavailable: 'fallback' }, way);
  };
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
  const thousandText = rulesFileOf(manyRules(1000));
  // A rule set for each: what one has been asked must not be known to the other.
  const [typical, thousand] = [ruleSetOf(rulesFileOf(typicalRules)), ruleSetOf(thousandText)];
  const times = inputTimes([
    ({ ruleRequest }) => typical.decide(ruleRequest),
    decideAndWrite(ruleSetOf(rulesFileOf(typicalRules))),
    ({ ruleRequest }) => thousand.decide(ruleRequest),
    decideAndWrite(ruleSetOf(thousandText)),
  ]);
  console.log(`${inputModel}\n`);
  const results = [
    ...[...times].flatMap(([kind, [ten = 0, tenWritten = 0, many = 0, manyWritten = 0]]) => [
      line(`10 typical rules, ${kind}: a decision`, ten, 'µs', 5),
      line(`10 typical rules, ${kind}: and its text`, tenWritten, 'µs', 8),
      line(`1,000 rules, ${kind}: a decision`, many, 'µs', 30),
      line(`1,000 rules, ${kind}: and its text`, manyWritten, 'µs', 35),
    ]),
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
