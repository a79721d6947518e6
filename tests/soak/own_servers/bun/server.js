Bun.serve({ port: process.env.PORT || 3000, fetch: () => Response.json({ hello: 'world' }) })
