import { listed } from '../../components/listed.ts';

export interface RequestFields {
  readonly method: string;
  readonly path: string;
  readonly user: string;
  /** Names separated by commas; empty: the groups from the configured sources. */
  readonly groups: string;
  readonly headers: string;
  readonly sql: string;
}

/** The body of `POST /api/explain`; lines without a colon are headers without a value. */
export function describedRequest({ method, path, user, groups, headers, sql }: RequestFields): Record<string, unknown> {
  const lines = new Map<string, string[]>();
  for (const line of headers.split('\n')) {
    const [name = '', ...value] = line.split(':');
    if (name.trim() === '') continue;
    lines.set(name.trim(), [...(lines.get(name.trim()) ?? []), value.join(':').trim()]);
  }
  const named = listed(groups);
  return {
    method: method.trim(),
    path: path.trim(),
    headers: Object.fromEntries(lines),
    ...(user.trim() === '' ? {} : { user: user.trim(), mapUser: true }),
    ...(named.length === 0 ? {} : { groups: named }),
    ...(sql === '' ? {} : { body: sql }),
  };
}
