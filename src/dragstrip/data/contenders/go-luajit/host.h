// What Go calls of LuaJIT. A chunk gets path, query, mark and the request's body, and returns status, content type and
// body.
#include <lauxlib.h>
#include <lualib.h>
#include <stdlib.h>
#include <string.h>

struct answer { int status; const char *kind; size_t kind_len; const char *body; size_t body_len; };

static lua_State *open_state(void) {
	lua_State *L = luaL_newstate();
	if (L) luaL_openlibs(L);
	return L;
}

// Parses a file; a reference to it in the registry, or LUA_NOREF with the reason on the stack.
static int keep_file(lua_State *L, const char *path) {
	if (luaL_loadfile(L, path)) return LUA_NOREF;
	return luaL_ref(L, LUA_REGISTRYINDEX);
}

// Each puts a chunk on the stack, 0 if it could.
static int push_kept(lua_State *L, int ref) { lua_rawgeti(L, LUA_REGISTRYINDEX, ref); return 0; }
static int push_file(lua_State *L, const char *path) { return luaL_loadfile(L, path); }
static int push_text(lua_State *L, const char *text, size_t len) { return luaL_loadbuffer(L, text, len, "app"); }

// Calls the chunk on the stack. What the answer points at lives until `finish`; status 0: the reason is the body.
static struct answer call(lua_State *L, _GoString_ path, _GoString_ query, _GoString_ mark,
		_GoString_ given) {
	struct answer it = {0};
	lua_pushlstring(L, _GoStringPtr(path), _GoStringLen(path));
	lua_pushlstring(L, _GoStringPtr(query), _GoStringLen(query));
	lua_pushlstring(L, _GoStringPtr(mark), _GoStringLen(mark));
	lua_pushlstring(L, _GoStringPtr(given), _GoStringLen(given));
	if (lua_pcall(L, 4, 3, 0)) {
		it.body = lua_tolstring(L, -1, &it.body_len);
		return it;
	}
	it.status = (int)lua_tointeger(L, -3);
	it.kind = lua_tolstring(L, -2, &it.kind_len);
	it.body = lua_tolstring(L, -1, &it.body_len);
	return it;
}

static void finish(lua_State *L) { lua_settop(L, 0); }
static const char *reason(lua_State *L) { return lua_tostring(L, -1); }
