def sub(path,*pairs):
    s=open(path).read()
    for a,b in pairs:
        if a not in s:
            print('MISSING',path,repr(a[:150])); continue
        s=s.replace(a,b)
    open(path,'w').write(s)
def cut(path,start,end,new=''):
    s=open(path).read()
    if start not in s or (end and end not in s):
        print('MISSING',path,start[:80],end[:80]); return
    a=s.index(start); b=s.index(end,a) if end else len(s)
    open(path,'w').write(s[:a]+new+s[b:])
