/** Labels of a statement, of the comments that tools write around it (docs/digests.md#labels). */
export interface StatementLabels {
  readonly tool: string;
  /** Model of dbt, question of Metabase, chart of Superset, workbook of Tableau. */
  readonly model?: string;
  readonly dashboard?: string;
}

/** Characters of comments at either end of a statement that are read. */
const MAX_COMMENTS = 4_096;
const MAX_LABEL = 256;

/** A tool, with patterns of its comments and of its value of the header Source. */
interface Tool {
  readonly tool: string;
  readonly comment: RegExp;
  readonly source: RegExp;
  readonly model?: RegExp;
  readonly dashboard?: RegExp;
}

/** `key: value`, `"key": "value"` and `key=value`. */
const valuePattern = (key: string): RegExp =>
  new RegExp(`\\b${key}["']?\\s{0,4}[:=]\\s{0,4}(?:"([^"\\n]{1,256})"|'([^'\\n]{1,256})'|([^\\s,;'"*{}]{1,256}))`, 'i');
const dashboard = valuePattern('dashboard(?:_?id|_?name)?');

const tools: readonly Tool[] = [
  { tool: 'dbt', comment: /"app":\s{0,4}"dbt"/, source: /\bdbt\b/i, model: valuePattern('node_id') },
  { tool: 'looker', comment: /Looker Query Context '/, source: /\blooker\b/i, dashboard },
  { tool: 'metabase', comment: /Metabase:: /, source: /\bmetabase\b/i, model: valuePattern('cardID'), dashboard },
  // The marker of Preset and its packages, and the examples of SQL_QUERY_MUTATOR.
  {
    tool: 'superset',
    comment: /\b6dcd92a04feb50f14bbcf07c661680ba\b|\[SQL LAB\]|(?:--|\/\*)\s{0,4}superset\b/i,
    source: /\bsuperset\b/i,
    model: valuePattern('(?:chart|slice)(?:_?id|_?name)?'),
    dashboard,
  },
  // Tableau itself writes no comment: those are of custom SQL.
  {
    tool: 'tableau',
    comment: /(?:--|\/\*)\s{0,4}tableau\b/i,
    source: /\btableau\b/i,
    model: valuePattern('workbook(?:_?id|_?name)?'),
    dashboard,
  },
];

/**
 * Reads the labels of a statement; null if no known tool wrote it.
 * @param source value of the header Source: names the tool if no comment does
 */
export function statementLabels(text: string, source: string | null): StatementLabels | null {
  const comments = outerComments(text);
  if (comments !== '') {
    for (const { tool, comment, ...patterns } of tools) {
      if (!comment.test(comments)) continue;
      const model = firstGroup(patterns.model, comments);
      const named = firstGroup(patterns.dashboard, comments);
      return { tool, ...(model !== null && { model }), ...(named !== null && { dashboard: named }) };
    }
  }
  const bySource = source === null ? undefined : tools.find((tool) => tool.source.test(source.slice(0, MAX_LABEL)));
  return bySource === undefined ? null : { tool: bySource.tool };
}

function firstGroup(pattern: RegExp | undefined, text: string): string | null {
  const match = pattern?.exec(text) ?? null;
  return match === null ? null : (match[1] ?? match[2] ?? match[3] ?? null);
}

const leading = /^(?:\s+|--[^\n\r]*|\/\*[^*]*(?:\*(?!\/)[^*]*)*\*\/|PREPARE\s+(?:\w+|"[^"]*")\s+FROM\b)+/i;

/** Comments before the first token of a statement, also of one that is prepared, and those after its last line. */
function outerComments(text: string): string {
  const before = leading.exec(text.slice(0, MAX_COMMENTS))?.[0].trim() ?? '';
  let comments = before;
  let rest = text.slice(Math.max(before.length, text.length - MAX_COMMENTS)).trimEnd();
  for (;;) {
    const line = rest.slice(rest.lastIndexOf('\n') + 1);
    const start = rest.endsWith('*/') ? rest.lastIndexOf('/*') : rest.length - line.trimStart().length;
    if (start < 0 || !(rest.endsWith('*/') || rest.startsWith('--', start))) return comments;
    comments += `\n${rest.slice(start)}`;
    rest = rest.slice(0, start).trimEnd();
  }
}
