/** First bytes of a key store in Java's own format (JKS); PKCS#12 begins otherwise. */
const MAGIC = 0xfeed_feed;

/** True if a file is a key store in Java's own format, which is not read. */
export function isJavaKeyStore(bytes: Buffer): boolean {
  return bytes.length >= 4 && bytes.readUInt32BE(0) === MAGIC;
}

/** The command that converts a key store with a private key into one that is read. */
export function keyStoreConversion(path: string): string {
  const target = `${path.replace(/\.jks$/i, '')}.p12`;
  return `keytool -importkeystore -srckeystore ${path} -destkeystore ${target} -deststoretype PKCS12`;
}

/** The command that writes the certificates of a key store into a PEM file. */
export function trustStoreConversion(path: string): string {
  return `keytool -list -rfc -keystore ${path} > ${path.replace(/\.(?:jks|p12|pfx)$/i, '')}.pem`;
}
