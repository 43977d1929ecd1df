import { resourceKinds } from '../kinds/registry.ts';
import { RESOURCE_GROUP_CONFIGURATION } from '../kinds/resourceGroupConfiguration/spec.ts';
import { checkGroupsFile } from '../model/groupsFile/groupsFile.ts';
import type { GroupsFile } from '../model/groupsFile/storedGroups.ts';
import { type ManifestDocument, readManifests } from '../operator/sources/directory/manifestDocuments.ts';
import type { Finding } from './manifestCheck.ts';
import { holdsManifests } from './offlineRules.ts';
import { SourceDocument } from './sourceDocument.ts';

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
export interface GroupsOfText {
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
  const documents = readManifests(text, 'default');
  const ours = documents.filter(isOfGroups);
  const [first, second] = ours;
  const refused = (line: number, message: string): GroupsOfText => ({
    file: null,
    problems: [{ path, document: 1, rule: null, line, column: 1, message }],
  });
  // An unreadable document may have been one.
  const broken = first ?? documents.find(({ kind }) => kind === 'broken');
  if (broken?.kind === 'broken') return refused(broken.problemLine, broken.message);
  if (first === undefined) return refused(1, `none of the manifests is a ${RESOURCE_GROUP_CONFIGURATION}`);
  if (second !== undefined) {
    const message = `there are ${ours.length} resources of the kind ${RESOURCE_GROUP_CONFIGURATION}; give a file with the one that is meant`;
    return refused(second.line, message);
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
