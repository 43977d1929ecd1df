import type { API_FIELD_MANAGER } from '../../../model/resource.ts';
import type { ClusterDetails } from '../../client/types.ts';

const ownManager: typeof API_FIELD_MANAGER = 'engine-gateway-api';

export function valueText(value: unknown): string {
  if (value === null || value === undefined) return 'none';
  return typeof value === 'string' ? value : JSON.stringify(value);
}

/** Owners of a field; empty if unknown. */
export function ownersText(managers: readonly string[]): string {
  const named = managers.map((manager) => (manager === ownManager ? 'REST, which has taken it over' : manager));
  return named.length === 0 ? '' : `by ${named.join(' and ')}`;
}

/** Compares active and declared values, with the reason for differences. */
export function differencesText({
  fields,
  resource,
  routed,
  override,
}: Pick<ClusterDetails, 'fields' | 'resource' | 'routed' | 'override'>): string {
  const count = fields.filter(({ differs }) => differs).length;
  if (!routed) return 'Nothing of it is in force: it is not routed.';
  if (count === 0) return 'All that is declared is in force.';
  const acceptance = resource?.conditions.find(({ type }) => type === 'Accepted');
  const reasons = [
    ...(resource?.paused === true ? ['the resource is paused'] : []),
    ...(acceptance?.status === 'False' ? [`the resource is not accepted: ${acceptance.message}`] : []),
    ...(override === null ? [] : ['an override is in force']),
  ];
  const what =
    count === 1 ? '1 field is in force as other than declared' : `${count} fields are in force as other than declared`;
  return `${what}${reasons.length === 0 ? '' : `: ${reasons.join('; ')}`}.`;
}
