// Renders the OpenAPI document. Everything is loaded from this server.
Scalar.createApiReference("#reference", {
  url: "/openapi.json",
  agent: { disabled: true },
  defaultOpenFirstTag: true,
  // Error pages link to `/docs#tag/TAG/OPERATION_ID`.
  generateOperationSlug: (operation) => operation.operationId,
  hideClientButton: true,
  mcp: { disabled: true },
  showDeveloperTools: "never",
  telemetry: false,
  withDefaultFonts: false,
});
