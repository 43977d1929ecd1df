import type { IncomingHttpHeaders } from 'undici/types/header.js';
import type { ProductNames } from '../../model/names.ts';
import type { ChoiceStep } from '../../routing/choiceSteps.ts';
import type { GroupDecision } from '../../routing/groupDecision.ts';
import type { ExchangeParts } from '../dataPlaneComposition.ts';
import type { Handshake } from '../pages/handshakeCookies.ts';
import type { ProxiedRequest } from '../proxiedRequest.ts';

export interface RespondingCluster {
  readonly cluster: { readonly name: string };
  /** How the request was routed; null for a follow-up, which belongs to its query's cluster. */
  readonly decision: GroupDecision | null;
  /** True if the cluster serves in place of the group that was decided on. */
  readonly fallback: boolean;
  /** Steps to this cluster; null if it belongs to the decided group. */
  readonly steps: readonly ChoiceStep[] | null;
  /** Reason and duration of the wait before admission; absent without a wait. */
  readonly admission?: string | null;
  /** The step of a login that the request was; null for all others. */
  readonly handshake: Handshake | null;
}

/** Groups that the header names in addition to the one that was decided on; the log and the history name all. */
const MAX_STEPS = 8;

/** True if lines may be added to a response; most settings add none. */
export function addsLines({ handshakes, settings }: ExchangeParts): boolean {
  return handshakes !== null || settings.explainHeader || settings.includeClusterHostInResponse;
}

/**
 * The header lines that the gateway adds to the response of a cluster: its cookies, and how the request was routed.
 * @param host of the cluster
 */
export function addedLines(
  { names, handshakes, settings }: ExchangeParts,
  { kind }: ProxiedRequest,
  headers: IncomingHttpHeaders,
  host: string,
  answering: RespondingCluster,
): readonly string[] {
  const { cluster, handshake } = answering;
  const lines: string[] = [];
  if (handshakes !== null) {
    const ofLogin = handshakes.linesOfLogin(headers, cluster.name);
    lines.push(...(ofLogin.length > 0 ? ofLogin : (handshake?.linesFor(cluster.name) ?? [])));
  }
  if (settings.explainHeader) lines.push(...explainLine(names, answering));
  if (settings.includeClusterHostInResponse && kind === 'submission') {
    lines.push('Set-Cookie', `${names.clusterHostCookie}=${host}`);
  }
  return lines;
}

/** The header line that states to a client how its request was routed (`routing.explainHeader`). */
function explainLine(
  names: ProductNames,
  { cluster, decision, fallback, steps, admission = null }: RespondingCluster,
): readonly string[] {
  const parts = [`cluster=${token(cluster.name)}`];
  if (decision === null) parts.push('by=query');
  else {
    parts.push(`group=${token(decision.group)}`, `by=${decision.decidedBy}`);
    if (decision.rule !== null) parts.push(`rule=${token(decision.rule)}`);
    if (fallback) parts.push('fallback=true');
    if (steps !== null) parts.push(`steps=${steps.slice(-MAX_STEPS).map(shortStep).join(',')}`);
    if (admission !== null) parts.push(`admission="${quoted(admission)}"`);
  }
  return [names.header('Routing-Decision'), parts.join('; ')];
}

/** Content of the header for a queued query. */
export interface ExplainedWait {
  readonly group: string;
  /** Null if this replica does not know. */
  readonly decidedBy: string | null;
  readonly rule: string | null;
  /** Null if those that wait have no order, and where another replica holds it. */
  readonly position: { readonly position: number; readonly waiting: number } | null;
  /** Reason of the wait; null if another replica has it. */
  readonly why: string | null;
}

/** The same line while a query waits: its group and its place there. */
export function waitLine(names: ProductNames, wait: ExplainedWait): readonly string[] {
  const { group, decidedBy, rule, position, why } = wait;
  const parts = [
    ...(group === '' ? [] : [`group=${token(group)}`]),
    ...(decidedBy === null ? [] : [`by=${decidedBy}`]),
    ...(rule === null ? [] : [`rule=${token(rule)}`]),
    'queued=true',
    ...(position === null ? [] : [`position=${position.position}`, `waiting=${position.waiting}`]),
    ...(why === null ? [] : [`admission="${quoted(why)}"`]),
  ];
  return [names.header('Routing-Decision'), parts.join('; ')];
}

function shortStep({ group, outcome }: ChoiceStep): string {
  return `${token(group)}:${outcome}`;
}

/** Text for users in quotes: names in it may be anything. */
function quoted(text: string): string {
  return text.replaceAll(/[^ !#-[\]-~]/g, '?');
}

/** A value that fits into a header line whatever people named things. */
function token(text: string): string {
  return /^[\w.:-]+$/.test(text) ? text : `"${encodeURIComponent(text)}"`;
}
