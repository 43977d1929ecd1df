import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { resourceKinds } from '../../../src/kinds/registry.ts';

/** Texts for people: pages of the user interface. */
const prose = [
  ...['RuleDialog', 'RulesPage'].map((name) => `src/ui/pages/rules/${name}.tsx`),
  'src/ui/pages/audit/AuditPage.tsx',
  ...['clusters/clusterParts', 'groups/groupParts'].map((name) => `src/ui/pages/${name}.tsx`),
  'src/ui/pages/limits/LimitsPage.tsx',
  'src/ui/pages/resourceGroups/declarations.tsx',
];

const word = new RegExp(
  `\\b(${resourceKinds.all.flatMap(({ kind, plural, singular }) => [kind, plural, singular]).join('|')})\\b`,
);

/** Places of a source file that name a kind by a literal; types that are imported from src/kinds are none. */
function literals(text: string): readonly string[] {
  const code = text.replaceAll(/\/\*[\s\S]*?\*\/|^\s*\/\/.*$|\s\/\/ .*$/gm, '');
  const quoted = /'(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*"|`(?:[^`\\]|\\.)*`/g;
  const inTexts = [...code.matchAll(quoted)]
    .map(([each]) => each)
    .filter((each) => word.test(each) && !/^'\.{1,2}\//.test(each));
  const imported = [...code.matchAll(/import (?:type )?\{([^}]*)\} from '[^']*\/kinds\/[^']*'/g)].flatMap(([, names]) =>
    (names ?? '').split(',').map((name) => name.replace('type ', '').trim()),
  );
  const rest = code.replaceAll(quoted, '').replaceAll(/\w+/g, (name) => (imported.includes(name) ? '' : name));
  return [...inTexts, ...rest.split('\n').filter((line) => word.test(line))];
}

test.each([
  ["kind === 'EngineCluster'", 1],
  ['const path = `/apis/routingrules/${name}`;', 1],
  ['/(EngineCluster|X)/.exec(text)', 1],
  ["import type { RoutingRule } from '../kinds/routingRule/spec.ts';\nlet a: RoutingRule;", 0],
  ['let a: RoutingRule;', 1],
  ['/** Of an EngineCluster. */\nf(); // an EngineCluster', 0],
])('a literal name of a kind is found in %j: %i', (text, count) => {
  expect(literals(text)).toHaveLength(count);
});

test('no literal name of a kind is outside src/kinds', () => {
  const files = ['src', 'scripts'].flatMap((folder) =>
    readdirSync(folder, { recursive: true, encoding: 'utf8' }).map((path) => join(folder, path)),
  );
  const found = files
    .filter((path) => /\.tsx?$/.test(path) && !path.startsWith('src/kinds/') && !prose.includes(path))
    .flatMap((path) => literals(readFileSync(path, 'utf8')).map((place) => `${path}: ${place.trim()}`));
  expect(found).toEqual([]);
});

test('of the operator only the registry, discovery, the writer of groups and the database source import the folder of a kind', () => {
  const importsKind = /from '[^']*\/kinds\/[^'/]+\/[^']*'/;
  const files = readdirSync('src/operator', { recursive: true, encoding: 'utf8' })
    .filter(
      (path) =>
        path.endsWith('.ts') && !/^((registry|discovery|sources\/database)\/|reconcile\/groupApplier)/.test(path),
    )
    .filter((path) => importsKind.test(readFileSync(join('src/operator', path), 'utf8')));
  expect(files).toEqual([]);
});

describe('the registry', () => {
  test.each(resourceKinds.all.map((kind) => [kind.kind, kind] as const))('%s: its example is valid', (_, kind) => {
    expect(kind.specProblems(kind.example)).toEqual([]);
  });

  test.each(resourceKinds.all.map((kind) => [kind.kind, kind] as const))('%s: has a class', (_, kind) => {
    expect(kind.specProblems({ ...kind.example, gatewayClassName: 'blue' })).toEqual([]);
    expect(kind.specProblems({ ...kind.example, gatewayClassName: 'Blue' })).toMatchObject([
      { field: 'spec.gatewayClassName' },
    ]);
  });

  test('crds/ holds a CRD of every kind and no other', () => {
    expect(readdirSync('crds').sort()).toEqual(
      resourceKinds.all.map(({ plural }) => `enginegateway.dev_${plural}.yaml`).sort(),
    );
  });
});
