/** A text that rows are searched by. NUL is in no row, and PostgreSQL rejects it: U+FFFD stands for it. */
export function searchText(text: string): string {
  return text.replaceAll('\0', '\ufffd');
}
