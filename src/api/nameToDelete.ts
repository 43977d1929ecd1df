import { GatewayError } from '../model/errors.ts';
import type { ClusterRegistry } from '../operator/registry/clusterRegistry.ts';
import { utf8 } from './jsonBody.ts';

/** Characters of the longest object with a name: no cluster has a name of more than 256. */
const MAX_OBJECT_LENGTH = 10_000;

/**
 * The name of the cluster that a body asks to delete: as text, or of `{"name": "…"}`, which clients in the field send.
 * One line end after it is not part of it.
 * @throws GatewayError EG_MALFORMED for a body without a name
 */
export function nameToDelete(body: Buffer | undefined, registry: ClusterRegistry): string {
  const text = utf8(body);
  if (text !== '' && registry.get(text) !== null) return text;
  const name = text.replace(/\r?\n$/, '');
  if (name.trim() === '') {
    throw new GatewayError('EG_MALFORMED', 'The body is empty; send the name of the cluster as text.', {
      field: 'name',
    });
  }
  if (!name.trimStart().startsWith('{') || name.length > MAX_OBJECT_LENGTH) return name;
  let value: unknown;
  try {
    value = JSON.parse(name);
  } catch {
    return name;
  }
  const inner = (value as { name?: unknown }).name;
  if (typeof inner === 'string' && inner !== '') return inner;
  throw new GatewayError('EG_MALFORMED', 'name is required: send {"name": "…"} or the name as text.', {
    field: 'name',
  });
}
