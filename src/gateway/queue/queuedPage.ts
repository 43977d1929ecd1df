import { durationText } from '../../model/durationText.ts';
import type { PlainResponse } from '../../routing/refusal.ts';
import type { QueuePosition } from '../admission/admission.ts';

const REFRESH_SECONDS = 2;

export type QueuedPage =
  | {
      readonly state: 'waiting';
      readonly group: string;
      /** Milliseconds. */
      readonly waitedMs: number;
      /** Null if another replica has it, or if the queue is not ordered. */
      readonly position: QueuePosition | null;
    }
  | { readonly state: 'submitted'; readonly engineId: string }
  | { readonly state: 'failed' }
  | { readonly state: 'unknown' };

/**
 * The page at the `infoUri` of a query until a cluster has it. It needs no login, so it contains no user names: neither
 * the statement nor the limits that the query waits for.
 */
export function queuedPage(id: string, page: QueuedPage): PlainResponse {
  const waits = page.state === 'waiting';
  const body = `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Query ${escaped(id)}</title></head>
<body><h1>Query ${escaped(id)}</h1>
${linesOf(page)
  .map((line) => `<p>${escaped(line)}</p>\n`)
  .join('')}</body></html>
`;
  return {
    status: page.state === 'unknown' ? 404 : 200,
    headers: [
      ...['Content-Type', 'text/html; charset=utf-8', 'Cache-Control', 'no-store', 'X-Content-Type-Options', 'nosniff'],
      ...['Content-Security-Policy', "default-src 'none'; frame-ancestors 'none'", 'Referrer-Policy', 'no-referrer'],
      ...(waits ? ['Refresh', String(REFRESH_SECONDS)] : []),
    ],
    body,
  };
}

function linesOf(page: QueuedPage): readonly string[] {
  switch (page.state) {
    case 'waiting': {
      const { group, waitedMs, position } = page;
      const seconds = Math.round(waitedMs / 1000);
      const waited = seconds < 120 ? `${seconds} s` : durationText(seconds * 1000);
      return [
        `It waits for its turn in routing group ${group}, for ${waited}.`,
        ...(position === null ? [] : [`Place: ${position.position} of ${position.waiting}.`]),
        'This page follows by itself, and leads to the page of the cluster once that has the query.',
      ];
    }
    case 'submitted':
      return [`A cluster has it, as ${page.engineId}. The pages of clusters are not served here.`];
    case 'failed':
      return ['It ended before a cluster had it: its client has the reason.'];
    default:
      return ['It does not wait here: it was cancelled, or ended long ago.'];
  }
}

const entities: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
};

function escaped(text: string): string {
  return text.replaceAll(/[&<>"']/g, (character) => entities[character] ?? '');
}
