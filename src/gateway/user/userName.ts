const MAX_NAME_LENGTH = 1_024;

/** The text if it is a valid user name: not empty, without control characters, not overlong; null otherwise. */
export function userName(value: unknown): string | null {
  if (typeof value !== 'string' || value.length === 0 || value.length > MAX_NAME_LENGTH) return null;
  if (value.trim() === '') return null;
  for (let i = 0; i < value.length; i += 1) {
    const unit = value.charCodeAt(i);
    if (unit < 32 || unit === 127) return null;
  }
  return value;
}
