export const queryAddress = (queryId: string): string => `/queries/${encodeURIComponent(queryId)}`;

export const clusterAddress = (name: string): string => `/clusters/${encodeURIComponent(name)}`;

export const ruleAddress = (name: string): string => `/routing-rules?rule=${encodeURIComponent(name)}`;

export const groupAddress = (name: string): string => `/groups/${encodeURIComponent(name)}`;

export const clusterHistoryAddress = (name: string): string => `/history?cluster=${encodeURIComponent(name)}`;

export const groupHistoryAddress = (name: string): string => `/history?routingGroup=${encodeURIComponent(name)}`;
