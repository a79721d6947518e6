const port = Number(Deno.env.get('PORT') ?? 8000)
Deno.serve({ port }, () => Response.json({ hello: 'world' }))
