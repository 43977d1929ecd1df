import { resourceKinds } from '../kinds/registry.ts';
import type { Problem } from '../model/errors.ts';
import { gatewayClassOf } from '../model/gatewayClass.ts';
import { registryNameOf } from '../model/resourceName.ts';
import { readManifests } from '../operator/sources/directory/manifestDocuments.ts';
import type { CompileContext } from '../rules/language/scope.ts';
import type { RulesFileProblem } from '../rules/ruleCompiler.ts';
import type { NamedPlace } from './crossChecks.ts';
import { SourceDocument } from './sourceDocument.ts';

/** A mistake or warning with its position. */
export type Finding = Omit<RulesFileProblem, 'effect'>;

export interface ManifestCheck {
  readonly resources: number;
  readonly problems: readonly Finding[];
  readonly warnings: readonly Finding[];
  readonly named: readonly NamedPlace[];
}

/**
 * Checks the resources of a manifest file: their form, and problems found by their kinds, such as rules that do not
 * compile. Ignores documents of other API groups.
 * @param gatewayClass class of the gateway that they are intended for; null: any
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
