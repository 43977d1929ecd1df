import { type Authentication, csrfHeader } from './authentication.ts';
import { cookieNames } from './cookies.ts';
import type { Access } from './endpointAccess.ts';
import { isSafeMethod } from './guard.ts';

/** A scheme of the OpenAPI document (OpenAPI 3.1, Security Scheme Object). */
export interface SecurityScheme {
  readonly type: 'mutualTLS' | 'http' | 'apiKey';
  readonly description: string;
  readonly scheme?: 'basic' | 'bearer';
  readonly in?: 'cookie' | 'header';
  readonly name?: string;
}

/** Schemes that must all be satisfied; a list of these is one of which any will do (Security Requirement Object). */
export type SecurityRequirement = Readonly<Record<string, readonly string[]>>;

/** Security schemes of the OpenAPI document by name: methods that the configuration accepts. */
export function securitySchemes({ parts, isOpen }: Authentication): Readonly<Record<string, SecurityScheme>> {
  if (isOpen) return {};
  const { names, form, issuedTokens, kubernetes, certificates } = parts;
  const cookie = (secure: boolean, over: string): SecurityScheme => ({
    type: 'apiKey',
    in: 'cookie',
    name: cookieNames(names, secure).session,
    description: `Session of a browser that logged in over ${over}.`,
  });
  const tokens = [
    'a session (`data.token` of POST /login)',
    !issuedTokens.isEmpty && "a JWT of an OpenID provider or another issuer that names the gateway's audience",
    kubernetes !== null && 'a token of the Kubernetes cluster',
  ].filter((token) => token !== false);
  return {
    ...(form && { basic: { type: 'http', scheme: 'basic', description: 'Name and password, for programs.' } as const }),
    bearer: { type: 'http', scheme: 'bearer', description: `One of: ${tokens.join('; ')}.` },
    ...(certificates && {
      certificate: { type: 'mutualTLS', description: 'A client certificate, for programs.' } as const,
    }),
    session: cookie(false, 'clear text'),
    secureSession: cookie(true, 'TLS'),
    csrf: {
      type: 'apiKey',
      in: 'header',
      name: csrfHeader(names),
      description: `Value of the cookie ${cookieNames(names, false).csrf} (${cookieNames(names, true).csrf} over TLS).`,
    },
  };
}

/** Ways to call an operation: any of them. Those by cookie repeat the session's token where something may change. */
export function securityOf(authentication: Authentication, method: string): SecurityRequirement[] {
  const header: SecurityRequirement = isSafeMethod(method) ? {} : { csrf: [] };
  return [
    ...(authentication.parts.form === null ? [] : [{ basic: [] }]),
    { bearer: [] },
    ...(authentication.parts.certificates === null ? [] : [{ certificate: [] }]),
    { session: [], ...header },
    { secureSession: [], ...header },
  ];
}

/** Describes the required rights of an operation. */
export function accessInWords({ anyOf, resources }: Access, { parts }: Authentication): string {
  const roles = `Needs the role ${anyOf.join(' or ')}`;
  if (parts.kubernetes === null) return `${roles}.`;
  return `${roles}; of callers known by Kubernetes, RBAC: ${rightsInWords(resources)}.`;
}

/** Rights on resources as RBAC has them, e.g. `create engineclusters.enginegateway.dev`. */
export function rightsInWords(resources: Access['resources']): string {
  return resources.map(({ verb, resource }) => `${verb} ${resource}.enginegateway.dev`).join(' and ');
}
