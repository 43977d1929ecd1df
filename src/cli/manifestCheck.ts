import { isMap, isScalar, LineCounter, parseDocument, type Scalar } from 'yaml';
import { resourceKinds } from '../kinds/registry.ts';
import { RESOURCE_GROUP_CONFIGURATION } from '../kinds/resourceGroupConfiguration/spec.ts';
import type { Problem } from '../model/errors.ts';
import { checkGroupsFile } from '../model/groupsFile/groupsFile.ts';
import type { GroupsFile } from '../model/groupsFile/storedGroups.ts';
import { apiVersionOf, gatewayClassOf, type Resource, registryNameOf } from '../model/resource.ts';
import { type ManifestDocument, manifestsIn } from '../operator/sources/directory/manifestFiles.ts';
import { textPlace } from '../rules/compile/textPlace.ts';
import type { CompileContext } from '../rules/language/scope.ts';
import type { RulesFileProblem } from '../rules/ruleCompiler.ts';
import { holdsManifests } from './offlineRules.ts';
import type { NamedPlace } from './validate.ts';

/** A mistake or warning with its position. */
export type Finding = Omit<RulesFileProblem, 'effect'>;

interface ManifestCheck {
  readonly resources: number;
  readonly problems: readonly Finding[];
  readonly warnings: readonly Finding[];
  readonly named: readonly NamedPlace[];
}

/**
 * Checks the resources of a manifest file: their form, and problems found by their kinds, such as rules that do not
 * compile. Ignores documents of other API groups.
 * @param gatewayClass class of the gateway that they are intended for; null: any
 * @param defaultNamespace of resources that name none
 * @param namespace of all resources, by Kustomize; null: as they are
 */
export function checkManifests(
  path: string,
  text: string,
  context: CompileContext,
  gatewayClass: string | null = null,
  defaultNamespace = 'default',
  namespace: string | null = null,
): ManifestCheck {
  const problems: Finding[] = [];
  const warnings: Finding[] = [];
  const named: NamedPlace[] = [];
  let resources = 0;
  for (const document of manifestsIn(text, defaultNamespace)) {
    if (document.kind === 'other') continue;
    resources += 1;
    const at = { path, document: document.number, column: 1 };
    if (document.kind === 'broken') {
      problems.push({ ...at, line: document.problemLine, rule: document.key?.name ?? null, message: document.message });
      continue;
    }
    const { key, spec, creationTimestamp, labels, annotations } = document.manifest;
    const source = new SourceDocument(text.slice(document.start, document.end), document.line);
    for (const { field, message } of resourceKinds.specProblems(key.kind, spec)) {
      problems.push({ ...at, ...source.placeOf(field), rule: key.name, message: problemMessage({ field, message }) });
    }
    const { name } = key;
    const other = gatewayClassOf(spec);
    if (gatewayClass !== null && other !== gatewayClass) {
      const message = `is for ${other === null ? 'gateways without a class' : `the gateway class ${other}`}; a gateway of the class ${gatewayClass} leaves it out: set spec.gatewayClassName`;
      warnings.push({ ...at, ...source.placeOf('spec.gatewayClassName'), rule: name, message });
    }
    const kind = resourceKinds.of(key.kind);
    const place = kind.isClusterScoped ? '' : (namespace ?? key.namespace);
    const metadata = { namespace: place, name, uid: '', resourceVersion: '', generation: 1, labels, annotations };
    const created = { ...metadata, creationTimestamp: creationTimestamp ?? '' };
    const resource: Resource = { apiVersion: apiVersionOf(key.kind), kind: key.kind, metadata: created, spec };
    const placeOf = source.placeOf.bind(source);
    named.push({
      ...at,
      ...placeOf(typeof spec.name === 'string' ? 'spec.name' : 'metadata.name'),
      name: registryNameOf(resource),
      resource,
      placeOf,
    });
    const manifest = { name, spec, context, textPlace: source.textPlace.bind(source) };
    for (const { severity, message, at: field } of kind.findings(manifest)) {
      const placed = typeof field === 'string' ? source.placeOf(field) : field;
      (severity === 'problem' ? problems : warnings).push({ ...at, ...placed, rule: name, message });
    }
  }
  return { resources, problems, warnings, named };
}

function problemMessage({ field, message }: Problem): string {
  return field === '' ? message : `${field} ${message}`;
}

/** True if a text is a file of the engine's file-based resource group manager, even with mistakes. */
export function looksLikeGroupsFile(text: string): boolean {
  return /^\s*\{/.test(text) && /"(?:rootGroups|cpuQuotaPeriod)"\s*:/.test(text);
}

/** Checks a file of the engine's file-based resource group manager (docs/resource-groups.md#checking-a-file). */
export function checkGroupsFileText(
  path: string,
  text: string,
): { readonly problems: readonly Finding[]; readonly warnings: readonly Finding[] } {
  const at = { path, document: 1, rule: null };
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    const { message } = error as SyntaxError;
    const [, line = '1', column = '1'] = /line (\d+) column (\d+)/.exec(message) ?? [];
    return {
      problems: [{ ...at, line: Number(line), column: Number(column), message: `is not JSON: ${message}` }],
      warnings: [],
    };
  }
  const { problems, warnings } = checkGroupsFile(value);
  const source = new SourceDocument(text, 1);
  const placed = ({ field, message }: { readonly field: string; readonly message: string }): Finding => ({
    ...at,
    ...source.placeOf(field),
    message: `${field} ${message}`,
  });
  return { problems: problems.map(placed), warnings: warnings.map(placed) };
}

/** Resource groups of a text; null if it has none, or mistakes. */
interface GroupsOfText {
  readonly file: GroupsFile | null;
  readonly problems: readonly Finding[];
}

/**
 * Reads resource groups: a file of the engine's file-based manager, or manifests with such a resource
 * (docs/resource-groups.md#as-a-resource).
 */
export function groupsOfText(path: string, text: string): GroupsOfText {
  if (!holdsManifests(text)) {
    const { problems } = checkGroupsFileText(path, text);
    return { file: problems.length === 0 ? (JSON.parse(text) as GroupsFile) : null, problems };
  }
  const documents = [...manifestsIn(text, 'default')];
  const ours = documents.filter(isOfGroups);
  const [first, second] = ours;
  const rejection = (line: number, message: string): GroupsOfText => ({
    file: null,
    problems: [{ path, document: 1, rule: null, line, column: 1, message }],
  });
  // An unreadable document may have been one.
  const broken = first ?? documents.find(({ kind }) => kind === 'broken');
  if (broken?.kind === 'broken') return rejection(broken.problemLine, broken.message);
  if (first === undefined) return rejection(1, `none of the manifests is a ${RESOURCE_GROUP_CONFIGURATION}`);
  if (second !== undefined) {
    const message = `there are ${ours.length} resources of the kind ${RESOURCE_GROUP_CONFIGURATION}; give a file with the one that is meant`;
    return rejection(second.line, message);
  }
  const { key, spec } = first.manifest;
  const source = new SourceDocument(text.slice(first.start, first.end), first.line);
  const problems = resourceKinds.specProblems(key.kind, spec).map(({ field, message }) => ({
    ...{ path, document: first.number, rule: key.name, ...source.placeOf(field) },
    message: field === '' ? message : `${field} ${message}`,
  }));
  return { file: problems.length === 0 ? (spec as unknown as GroupsFile) : null, problems };
}

function isOfGroups(document: ManifestDocument): document is Extract<ManifestDocument, { readonly kind: 'resource' }> {
  return document.kind === 'resource' && document.manifest.key.kind === RESOURCE_GROUP_CONFIGURATION;
}

/** A document of YAML or JSON, with positions of its fields. */
class SourceDocument {
  readonly #text: string;
  readonly #firstLine: number;
  readonly #lines = new LineCounter();
  readonly #document;

  /** @param firstLine line of the file at the text's start, from 1 */
  constructor(text: string, firstLine: number) {
    this.#text = text;
    this.#firstLine = firstLine;
    this.#document = parseDocument(text, { lineCounter: this.#lines, logLevel: 'silent' });
  }

  /** Start of a text's content in the file; null if missing. */
  textPlace(path: readonly (string | number)[]) {
    const node = this.#document.getIn(path, true);
    return isScalar(node) ? textPlace(node as Scalar, this.#text, this.#lines, this.#firstLine) : null;
  }

  /** Position of a field such as `spec.actions[0]`, or of the nearest existing ancestor. */
  placeOf(field: string): { readonly line: number; readonly column: number } {
    const path = field
      .split(/[.[\]]+/)
      .filter((part) => part !== '')
      .map((part) => (/^[0-9]+$/.test(part) ? Number(part) : part));
    for (let length = path.length; length > 0; length -= 1) {
      const offset = this.#offsetOf(path.slice(0, length));
      if (offset !== null) {
        const { line, col } = this.#lines.linePos(offset);
        return { line: line + this.#firstLine - 1, column: col };
      }
    }
    return { line: this.#firstLine, column: 1 };
  }

  #offsetOf(path: readonly (string | number)[]): number | null {
    const parent = path.length === 1 ? this.#document.contents : this.#document.getIn(path.slice(0, -1), true);
    const last = path.at(-1);
    if (isMap(parent)) {
      const pair = parent.items.find((item) => String(item.key) === String(last));
      return (pair?.key as { range?: readonly [number, number, number] } | undefined)?.range?.[0] ?? null;
    }
    const node = this.#document.getIn(path, true) as { range?: readonly [number, number, number] } | undefined;
    return node?.range?.[0] ?? null;
  }
}
