import { isMap, isScalar, LineCounter, parseDocument, type Scalar } from 'yaml';
import { resourceKinds } from '../kinds/registry.ts';
import type { Problem } from '../model/errors.ts';
import { gatewayClassOf } from '../model/gatewayClass.ts';
import { registryNameOf } from '../model/resourceName.ts';
import { readManifests } from '../operator/sources/directory/manifestDocuments.ts';
import { textPlace } from '../rules/compile/textPlace.ts';
import type { CompileContext } from '../rules/language/scope.ts';
import type { RulesFileProblem } from '../rules/ruleCompiler.ts';
import type { NamedPlace } from './duplicates.ts';

/** A mistake or warning with its place. */
export type Finding = Omit<RulesFileProblem, 'effect'>;

/** What checking a manifest file found. */
export interface ManifestCheck {
  /** Resources of the gateway's API group in the file. */
  readonly resources: number;
  readonly problems: readonly Finding[];
  readonly warnings: readonly Finding[];
  /** Its resources with their names. */
  readonly named: readonly NamedPlace[];
}

/**
 * Checks the resources of a manifest file: their form, and what their kinds say of them, such as rules that do not compile.
 * Documents of other API groups are not ours.
 * @param gatewayClass class of the gateway that they are meant for; null: whichever
 */
export function checkManifests(
  path: string,
  text: string,
  context: CompileContext,
  kinds = resourceKinds,
  gatewayClass: string | null = null,
): ManifestCheck {
  const problems: Finding[] = [];
  const warnings: Finding[] = [];
  const named: NamedPlace[] = [];
  let resources = 0;
  for (const document of readManifests(text, 'default', null, kinds)) {
    if (document.kind === 'other') continue;
    resources += 1;
    const at = { path, document: document.number, column: 1 };
    if (document.kind === 'broken') {
      problems.push({ ...at, line: document.problemLine, rule: document.key?.name ?? null, message: document.message });
      continue;
    }
    const { key, spec, creationTimestamp, labels, annotations } = document.manifest;
    const source = new SourceDocument(text.slice(document.start, document.end), document.line);
    for (const { field, message } of kinds.specProblems(key.kind, spec)) {
      problems.push({ ...at, ...source.placeOf(field), rule: key.name, message: problemMessage({ field, message }) });
    }
    const { name } = key;
    const other = gatewayClassOf(spec);
    if (gatewayClass !== null && other !== gatewayClass) {
      const message = `is for ${other === null ? 'gateways without a class' : `the gateway class ${other}`}; a gateway of the class ${gatewayClass} leaves it out: set spec.gatewayClassName`;
      warnings.push({ ...at, ...source.placeOf('spec.gatewayClassName'), rule: name, message });
    }
    const { namespace, kind } = key;
    const metadata = { namespace, name, uid: '', resourceVersion: '', generation: 1, labels, annotations };
    const resource = { kind, metadata: { ...metadata, creationTimestamp: creationTimestamp ?? '' }, spec };
    const place = source.placeOf(typeof spec.name === 'string' ? 'spec.name' : 'metadata.name');
    named.push({ ...at, ...place, name: registryNameOf(resource), resource });
    const manifest = { name, spec, context, textPlace: source.textPlace.bind(source) };
    for (const { severity, message, at: field } of kinds.of(key.kind).findings(manifest)) {
      const placed = typeof field === 'string' ? source.placeOf(field) : field;
      (severity === 'problem' ? problems : warnings).push({ ...at, ...placed, rule: name, message });
    }
  }
  return { resources, problems, warnings, named };
}

function problemMessage({ field, message }: Problem): string {
  return field === '' ? message : `${field} ${message}`;
}

/** A document of the file, for places. */
class SourceDocument {
  readonly #text: string;
  readonly #firstLine: number;
  readonly #lines = new LineCounter();
  readonly #document;

  constructor(text: string, firstLine: number) {
    this.#text = text;
    this.#firstLine = firstLine;
    this.#document = parseDocument(text, { lineCounter: this.#lines, logLevel: 'silent' });
  }

  textPlace(path: readonly (string | number)[]) {
    const node = this.#document.getIn(path, true);
    return isScalar(node) ? textPlace(node as Scalar, this.#text, this.#lines, this.#firstLine) : null;
  }

  /** Place of a field such as `spec.actions[0]`, or of the nearest one around it that is there. */
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
