import type { LineCounter, Scalar } from 'yaml';
import type { TextPlace } from './definition.ts';

/**
 * Position of a YAML text's content, for messages.
 * @param text the text that the node's range refers to
 * @param firstLine line of the text's first character in its file, counted from 1
 */
export function textPlace(node: Scalar, text: string, lines: LineCounter, firstLine = 1): TextPlace {
  const start = node.range?.[0] ?? 0;
  const { line: lineInText, col } = lines.linePos(start);
  const line = lineInText + firstLine - 1;
  if (node.type !== 'BLOCK_LITERAL' && node.type !== 'BLOCK_FOLDED') {
    return { line, column: col + (node.type === 'PLAIN' ? 0 : 1), indent: null };
  }
  const content = text.slice(start).split('\n')[1] ?? '';
  const indent = content.length - content.trimStart().length + 1;
  return { line: line + 1, column: indent, indent };
}
