import { isDeepStrictEqual } from 'node:util';
import { resourceKinds } from '../../../kinds/registry.ts';
import { GatewayError } from '../../../model/errors.ts';
import { keyOf, keyText, type Resource } from '../../../model/resource.ts';
import { VersionConflict } from '../source.ts';
import { type ManifestDocument, type ReadFile, readManifests } from './manifestDocuments.ts';
import { sameContent } from './manifestIndex.ts';

/**
 * The text of a manifest file after a change of one resource's document; null when no document is left in it.
 * @param text the file's text; null: there is no file
 * @param current the resource as the change was decided on
 * @param namespace namespace of manifests that name none
 * @param before the file as it was read before
 * @param edit makes the document's new text from its present one; an empty one takes it out
 * @throws VersionConflict when the document states something else than the resource that is held
 * @throws GatewayError EG_CONFLICT when the document cannot be read
 */
export function changeDocument(
  path: string,
  text: string | null,
  current: Resource,
  namespace: string,
  before: ReadFile | null,
  edit: (document: string) => string,
  kinds = resourceKinds,
): string | null {
  const key = keyOf(current);
  const documents = readManifests(text ?? '', namespace, before, kinds);
  const document = documents.find(
    (candidate) => candidate.kind === 'resource' && keyText(candidate.manifest.key) === keyText(key),
  );
  const broken = documents.find((candidate) => candidate.kind === 'broken');
  if (document === undefined && broken !== undefined && isDeepStrictEqual(broken.key ?? key, key)) {
    throw new GatewayError(
      'EG_CONFLICT',
      `the document of ${key.name} in ${path} (document ${broken.number}, line ${broken.problemLine}) cannot be read; fix the file first`,
    );
  }
  if (text === null || document?.kind !== 'resource' || !sameContent(current, document.manifest)) {
    throw new VersionConflict(key);
  }
  return exchangeDocument(text, documents, document, edit(text.slice(document.start, document.end)));
}

/** The file's text with one document exchanged; null when nothing of any document is left. */
function exchangeDocument(
  text: string,
  documents: readonly ManifestDocument[],
  { start, end }: ManifestDocument,
  replacement: string,
): string | null {
  const rest = documents.some(
    (document) =>
      document.start !== start && text.slice(document.start, document.end).replaceAll(/^---|^\.\.\.|\s/gm, '') !== '',
  );
  if (replacement === '' && !rest) return null;
  return text.slice(0, start) + replacement + text.slice(end);
}
