import { GatewayError } from '../../model/errors.ts';
import type { Caller } from './caller.ts';
import { pagesOf } from './roleMapping.ts';

export interface PageSettings {
  /** `uiConfiguration.disablePages`. */
  readonly disablePages: readonly string[];
  /** `uiConfiguration.hiddenPageCalls`: whether calls of hidden pages get a response. */
  readonly hiddenPageCalls: 'refuse' | 'allow';
  /** `pagePermissions`. */
  readonly pagePermissions: Readonly<Record<string, string | null>>;
}

type Row = readonly [pattern: RegExp, pages: readonly string[]];

/** Pages that make a call, by its route; a call that is not here belongs to no page (docs/authentication.md#pages). */
const rows: readonly Row[] = [
  [/^\/webapp\/getDistribution$/, ['dashboard']],
  [/^\/api\/overview(\/|$)/, ['dashboard']],
  [/^\/webapp\/getAllBackends$/, ['cluster', 'dashboard', 'history']],
  [/^\/webapp\/(save|update|delete)Backend$/, ['cluster']],
  [/^\/webapp\/findQueryHistory$/, ['history']],
  [/^\/api\/history\/search$/, ['history']],
  [/^\/api\/queries(\/export)?$/, ['history']],
  [/^\/api\/statistics$/, ['dashboard', 'history']],
  [/^\/webapp\/(get|update)RoutingRules$/, ['routing-rules']],
  [/^\/api\/(rules|ruleHits)(\/|$)/, ['routing-rules']],
  [/^\/api\/(groups|limits)(\/|$)/, ['limits']],
  [/^\/api\/queue(\/|$)/, ['queue']],
  [/^\/api\/audit$/, ['audit']],
  [/^\/api\/queries\/running(\/|$)/, ['queue']],
  [/^\/webapp\/[a-z]+ResourceGroup$/, ['resource-group', 'selector']],
  [/^\/webapp\/[a-z]+(Selector|ExactMatchSourceSelector)$/, ['selector', 'resource-group']],
  [/^\/webapp\/[a-z]+GlobalProperty$/, ['resource-group', 'selector']],
  [/^\/api\/resourcegroups\/(explain|declared)$/, ['resource-group', 'selector']],
];

/** Pages that make the calls of a route; null if it belongs to none. */
export function pagesOfRoute(url: string): readonly string[] | null {
  return rows.find(([pattern]) => pattern.test(url))?.[1] ?? null;
}

/**
 * Rejects a call of pages of which the caller sees none.
 * @throws GatewayError EG_FORBIDDEN naming the pages and the key
 */
export async function requirePage(caller: Caller, pages: readonly string[], settings: PageSettings): Promise<void> {
  const disabled = settings.disablePages;
  const { pagePermissions } = settings;
  const hasPermissions = Object.keys(pagePermissions).length > 0;
  if ((disabled.length === 0 && !hasPermissions) || settings.hiddenPageCalls === 'allow') return;
  const enabled = pages.filter((page) => !disabled.includes(page));
  if (enabled.length === 0) throw hidden(pages, 'uiConfiguration.disablePages switches it off');
  const permitted = hasPermissions ? pagesOf(await caller.roles(), pagePermissions) : [];
  if (permitted.length > 0 && !enabled.some((page) => permitted.includes(page)))
    throw hidden(enabled, `pagePermissions does not give it to ${JSON.stringify(caller.name)}`);
}

function hidden(pages: readonly string[], why: string): GatewayError {
  return new GatewayError('EG_FORBIDDEN', `This call belongs to the page ${pages.join(' or ')}: ${why}.`);
}
