import { readFile, stat } from 'node:fs/promises';
import { ROUTING_RULE, type RoutingRule } from '../kinds/routingRule/spec.ts';
import type { ProductNames } from '../model/names.ts';
import { API_GROUP_VERSION, keyOf, keyText } from '../model/resource.ts';
import { type Manifest, readManifests } from '../operator/sources/directory/manifestDocuments.ts';
import { listManifestFiles } from '../operator/sources/directory/manifestFiles.ts';
import { createRuleCompiler } from '../rules/compiler.ts';
import type { RuleSet } from '../rules/decision.ts';

export interface OfflineRuleOptions {
  readonly names: ProductNames;
  /** `requestAnalyzerConfig.analyzeRequest`. */
  readonly analyzeRequest: boolean;
  /** Priority of rules of a rules file without one; default: 2147483647. */
  readonly defaultPriority?: number | undefined;
}

export function holdsManifests(text: string): boolean {
  return /^\s*(?:\{\s*)?["']?apiVersion["']?\s*:/m.test(text);
}

/**
 * Compiles the rules of a rules file, of a file of manifests, or of a directory of manifests.
 * @param report receives a line for each mistake, with file and position if known
 * @returns null if invalid
 */
export async function offlineRules(
  path: string,
  options: OfflineRuleOptions,
  report: (line: string) => void,
): Promise<RuleSet | null> {
  let files: readonly string[];
  try {
    files = (await stat(path)).isDirectory() ? [...(await listManifestFiles(path)).files.keys()] : [path];
  } catch (error) {
    report(`${path}: error: ${(error as Error).message}`);
    return null;
  }
  const compiler = createRuleCompiler({
    names: options.names,
    rulesEngineEnabled: true,
    rulesType: 'FILE',
    analyzeRequest: options.analyzeRequest,
    onRuleError: 'skip',
    onFileError: 'header',
    monotonic: () => 0,
  });
  const resources: RoutingRule[] = [];
  let hasMistakes = false;
  const mistake = (line: string): void => {
    hasMistakes = true;
    report(line);
  };
  for (const file of files) {
    const text = await readFile(file, 'utf8').catch(() => null);
    if (text === null || !holdsManifests(text)) {
      if (files.length > 1) continue;
      const { defaultPriority } = options;
      const { ruleSet, fileProblems, fileState } = compiler.compile([], { path, text, defaultPriority });
      for (const { line, column, message } of fileProblems) report(`${path}:${line}:${column}: error: ${message}`);
      return fileState === 'loaded' ? ruleSet : null;
    }
    for (const document of readManifests(text, 'default')) {
      if (document.kind === 'broken') mistake(`${file}:${document.problemLine}:1: error: ${document.message}`);
      else if (document.kind === 'resource' && document.manifest.key.kind === ROUTING_RULE) {
        resources.push(ruleOf(document.manifest));
      }
    }
  }
  if (resources.length === 0) mistake(`${path}: error: there is no ${ROUTING_RULE}`);
  const { ruleSet, reports } = compiler.compile(resources, null);
  for (const resource of resources) {
    const ruleReport = reports.get(keyText(keyOf(resource)));
    if (ruleReport?.accepted === false) mistake(`${path}: error: ${ruleReport.rule}: ${ruleReport.message}`);
  }
  return hasMistakes ? null : ruleSet;
}

function ruleOf({ key, labels, annotations, spec }: Manifest): RoutingRule {
  return {
    apiVersion: API_GROUP_VERSION,
    kind: ROUTING_RULE,
    metadata: {
      name: key.name,
      namespace: key.namespace,
      uid: key.name,
      resourceVersion: '1',
      generation: 1,
      creationTimestamp: '1970-01-01T00:00:00Z',
      labels,
      annotations,
    },
    spec: spec as RoutingRule['spec'],
  };
}
