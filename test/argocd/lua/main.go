// Runs health checks of Argo CD: reads lines of JSON with a script and an object, and answers each with a line with what the script returns, or
// with its error. The interpreter and the libraries that scripts may use are those of Argo CD (util/lua), which opens neither string nor math.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"time"

	lua "github.com/yuin/gopher-lua"
)

type request struct {
	Script string `json:"script"`
	Object any    `json:"object"`
}

type answer struct {
	Status  string `json:"status,omitempty"`
	Message string `json:"message,omitempty"`
	Error   string `json:"error,omitempty"`
}

func main() {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		found, err := run(lines.Bytes())
		if err != nil {
			found = answer{Error: err.Error()}
		}
		if err := json.NewEncoder(os.Stdout).Encode(found); err != nil {
			panic(err)
		}
	}
	if err := lines.Err(); err != nil {
		panic(err)
	}
}

func run(line []byte) (answer, error) {
	var given request
	if err := json.Unmarshal(line, &given); err != nil {
		return answer{}, err
	}
	state := lua.NewState(lua.Options{SkipOpenLibs: true})
	defer state.Close()
	for name, open := range map[string]lua.LGFunction{
		lua.LoadLibName: lua.OpenPackage,
		lua.BaseLibName: lua.OpenBase,
		lua.TabLibName:  lua.OpenTable,
	} {
		call := lua.P{Fn: state.NewFunction(open), Protect: true}
		if err := state.CallByParam(call, lua.LString(name)); err != nil {
			return answer{}, err
		}
	}
	limit, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	state.SetContext(limit)
	state.SetGlobal("obj", valueOf(state, given.Object))
	if err := state.DoString(given.Script); err != nil {
		return answer{}, err
	}
	returned, isTable := state.Get(-1).(*lua.LTable)
	if !isTable {
		return answer{}, fmt.Errorf("expected a table, not %s", state.Get(-1).Type())
	}
	return answer{Status: textIn(returned, "status"), Message: textIn(returned, "message")}, nil
}

// textIn returns an empty text for a field that is missing or not a text.
func textIn(table *lua.LTable, field string) string {
	text, _ := table.RawGetString(field).(lua.LString)
	return string(text)
}

func valueOf(state *lua.LState, value any) lua.LValue {
	switch given := value.(type) {
	case bool:
		return lua.LBool(given)
	case float64:
		return lua.LNumber(given)
	case string:
		return lua.LString(given)
	case []any:
		table := state.NewTable()
		for _, item := range given {
			table.Append(valueOf(state, item))
		}
		return table
	case map[string]any:
		table := state.NewTable()
		for key, item := range given {
			table.RawSetString(key, valueOf(state, item))
		}
		return table
	default:
		return lua.LNil
	}
}
